// Package libvirtx is the libvirt seam: named hosts, their sessions, and the
// translation between what the instance package asks of a host and what
// libvirt offers. Backend is the seam itself, one method per libvirt call,
// with two implementations: the wire (go-libvirt over SSH or the local socket)
// and the simulator (package sim).
package libvirtx
