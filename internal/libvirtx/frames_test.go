package libvirtx

import (
	"reflect"
	"testing"
)

// TestAnswers_kindsThatAreSkippedRight: what an answer is made of is one of
// those kinds that skip knows the size of.
func TestAnswers_kindsThatAreSkippedRight(t *testing.T) {
	var look func(at string, shape reflect.Type)
	look = func(at string, shape reflect.Type) {
		switch shape.Kind() {
		case reflect.Struct:
			if shape == typedParam {
				return
			}
			for f := range shape.Fields() {
				look(at+"."+f.Name, f.Type)
			}
		case reflect.Slice:
			if shape.Elem().Kind() == reflect.Uint8 {
				t.Errorf("%s: bytes are packed, unlike other values", at)
			}
			look(at+"[]", shape.Elem())
		case reflect.Array:
			if shape.Elem().Kind() != reflect.Uint8 {
				t.Errorf("%s: an array of %s", at, shape.Elem())
			}
		case reflect.String, reflect.Uint8, reflect.Int32, reflect.Uint32, reflect.Int64, reflect.Uint64:
		default:
			t.Errorf("%s: %s", at, shape)
		}
	}
	for _, shape := range answers {
		look(shape.Name(), shape)
	}
}

// TestAnswers_ofEveryProcedure: those that are not listed have no body.
func TestAnswers_ofEveryProcedure(t *testing.T) {
	bodiless := map[string]bool{
		"DomainDestroy": true, "DomainUndefine": true, "DomainSetAutostart": true, "DomainSetMetadata": true,
		"StoragePoolRefresh": true, "StorageVolDelete": true, "StorageVolUpload": true, "StorageVolDownload": true,
	}
	for name, proc := range procedures {
		if _, listed := answers[proc]; listed == bodiless[name] {
			t.Errorf("%s: listed: %v", name, listed)
		}
	}
}
