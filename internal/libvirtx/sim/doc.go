// Package sim is a libvirt host in memory behind the libvirtx seam: the host of
// `kvm2d serve --simulate`, of an operator's own tests and of every fast test
// here. It keeps state, parses the XML that it is given, and answers as libvirt
// 9 with QEMU was measured to answer, error numbers included.
//
// Time is read, never waited for: what a guest has reached follows from the
// moment it was booted, so there are no goroutines, and the package works
// inside testing/synctest. Like the wire, a call that has been sent ignores its
// context; leaving it behind is the caller's business.
package sim
