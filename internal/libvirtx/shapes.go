package libvirtx

import (
	"encoding/binary"
	"reflect"

	libvirt "github.com/digitalocean/go-libvirt"
)

// answers are the types of the bodies that procedures are answered with. One
// that is not here has no body that the library reads.
var answers = map[uint32]reflect.Type{
	7:   reflect.TypeFor[libvirt.ConnectGetCapabilitiesRet](),
	14:  reflect.TypeFor[libvirt.DomainGetXMLDescRet](),
	23:  reflect.TypeFor[libvirt.DomainLookupByNameRet](),
	46:  reflect.TypeFor[libvirt.NetworkLookupByNameRet](),
	59:  reflect.TypeFor[libvirt.ConnectGetHostnameRet](),
	66:  reflect.TypeFor[libvirt.AuthListRet](),
	84:  reflect.TypeFor[libvirt.StoragePoolLookupByNameRet](),
	87:  reflect.TypeFor[libvirt.StoragePoolGetInfoRet](),
	88:  reflect.TypeFor[libvirt.StoragePoolGetXMLDescRet](),
	93:  reflect.TypeFor[libvirt.StorageVolCreateXMLRet](),
	99:  reflect.TypeFor[libvirt.StorageVolGetXMLDescRet](),
	100: reflect.TypeFor[libvirt.StorageVolGetPathRet](),
	102: reflect.TypeFor[libvirt.NodeGetFreeMemoryRet](),
	128: reflect.TypeFor[libvirt.InterfaceLookupByNameRet](),
	151: reflect.TypeFor[libvirt.DomainIsPersistentRet](),
	152: reflect.TypeFor[libvirt.NetworkIsActiveRet](),
	157: reflect.TypeFor[libvirt.ConnectGetLibVersionRet](),
	196: reflect.TypeFor[libvirt.DomainCreateWithFlagsRet](),
	212: reflect.TypeFor[libvirt.DomainGetStateRet](),
	282: reflect.TypeFor[libvirt.StoragePoolListAllVolumesRet](),
	341: reflect.TypeFor[libvirt.NetworkGetDhcpLeasesRet](),
	342: reflect.TypeFor[libvirt.ConnectGetDomainCapabilitiesRet](),
	344: reflect.TypeFor[libvirt.ConnectGetAllDomainStatsRet](),
	350: reflect.TypeFor[libvirt.DomainDefineXMLFlagsRet](),
	353: reflect.TypeFor[libvirt.DomainInterfaceAddressesRet](),
}

// errorBody is as much of an error as the library reads.
type errorBody struct {
	Code, Domain, HasMessage uint32
	Message                  string
	Level                    uint32
}

// answerFits reports whether every length in the body of an answer is one that
// the body has room for. The library allocates what a length says before it
// reads on, and 2³¹ domains take the process down.
func answerFits(h frameHeader, body []byte) bool {
	shape, ok := answers[h.proc]
	if h.status == statusError {
		shape, ok = reflect.TypeFor[errorBody](), true
	} else if h.kind == typeStream {
		return true
	}
	if !ok {
		return true
	}
	left := xdrBytes(body)
	return left.skip(shape)
}

// xdrBytes is what is left of a body that is being gone over.
type xdrBytes []byte

var typedParam = reflect.TypeFor[libvirt.TypedParam]()

// skip passes over a value of that type; false when it is not there as a whole.
func (b *xdrBytes) skip(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		if t == typedParam {
			return b.skipParam()
		}
		for f := range t.Fields() {
			if !b.skip(f.Type) {
				return false
			}
		}
		return true
	case reflect.String:
		return b.skipOpaque()
	case reflect.Slice:
		count, ok := b.uint32()
		// Every value takes four bytes at least.
		if !ok || uint64(count)*4 > uint64(len(*b)) {
			return false
		}
		for range count {
			if !b.skip(t.Elem()) {
				return false
			}
		}
		return true
	case reflect.Array:
		// All arrays of the protocol are of bytes.
		return b.drop(uint64(t.Len()+3) &^ 3)
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		return b.drop(8)
	default:
		return b.drop(4)
	}
}

// skipParam passes over a name and a value whose type stands before it.
func (b *xdrBytes) skipParam() bool {
	if !b.skipOpaque() {
		return false
	}
	kind, ok := b.uint32()
	if !ok {
		return false
	}
	switch kind {
	case 1, 2, 6:
		return b.drop(4)
	case 3, 4, 5:
		return b.drop(8)
	case 7:
		return b.skipOpaque()
	default:
		return false
	}
}

// skipOpaque passes over a length and that many bytes, in fours.
func (b *xdrBytes) skipOpaque() bool {
	n, ok := b.uint32()
	return ok && b.drop((uint64(n)+3)&^3)
}

func (b *xdrBytes) uint32() (uint32, bool) {
	if len(*b) < 4 {
		return 0, false
	}
	n := binary.BigEndian.Uint32(*b)
	*b = (*b)[4:]
	return n, true
}

func (b *xdrBytes) drop(n uint64) bool {
	if n > uint64(len(*b)) {
		return false
	}
	*b = (*b)[n:]
	return true
}
