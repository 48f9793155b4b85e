// Package image keeps base disks in the hosts' storage pools and builds the
// NoCloud seeds of new machines.
//
// A base disk is downloaded once per host and content, streamed straight into
// the pool, verified on the way, and counts only when its marker exists: a tiny
// volume with a deterministic name that points at it. The marker is made last,
// atomically, by the host; it is the truth, and what this package remembers is
// only a hint that spares round trips.
package image
