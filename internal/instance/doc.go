// Package instance holds the provider contract: what an instance is, which
// states and errors a caller can meet, and the Service that creates, reads,
// deletes, lists and checks. It knows no libvirt and no HTTP; what it needs of
// a host and of the image cache it declares as interfaces (Host, Hosts,
// Images), which the adapters implement.
package instance
