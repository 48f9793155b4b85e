package sim

import (
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"
)

// fail makes the error that libvirt would send. Nobody may tell errors apart
// by text, so only the numbers are exact; the texts follow libvirt's manner.
func fail(code libvirt.ErrorNumber, format string, args ...any) error {
	return libvirt.Error{Code: uint32(code), Message: fmt.Sprintf(format, args...)}
}

// invalid is error 55, what libvirt answers to most calls at the wrong time.
func invalid(format string, args ...any) error {
	return fail(libvirt.ErrOperationInvalid, "Requested operation is not valid: "+format, args...)
}

func xmlFault(format string, args ...any) error {
	return fail(libvirt.ErrXMLError, "XML error: "+format, args...)
}

func unsupported(format string, args ...any) error {
	return fail(libvirt.ErrConfigUnsupported, "unsupported configuration: "+format, args...)
}
