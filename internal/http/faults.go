package http

import (
	"errors"
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
)

// maxFaults bounds what one answer lists.
const maxFaults = 32

// faultsOf translates the validator's error tree. The words are ours: the
// validator's own texts repeat values.
func faultsOf(err error) []gen.FieldError {
	var faults []gen.FieldError
	collectFaults(&faults, err, "#")
	if len(faults) == 0 {
		faults = []gen.FieldError{{Pointer: "#", Detail: "is not what the contract says"}}
	}
	return faults[:min(len(faults), maxFaults)]
}

func collectFaults(into *[]gen.FieldError, err error, at string) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked node by node; errors.As would skip siblings
	case openapi3.MultiError:
		for _, sub := range e {
			collectFaults(into, sub, at)
		}
	case *openapi3filter.RequestError:
		collectRequestFault(into, e)
	case *openapi3.SchemaError:
		*into = append(*into, schemaFault(e, at))
	default:
		*into = append(*into, gen.FieldError{Pointer: at, Detail: "cannot be read"})
	}
}

func collectRequestFault(into *[]gen.FieldError, e *openapi3filter.RequestError) {
	at, kind := "#", "a JSON value"
	if e.Parameter != nil {
		at = e.Parameter.In + "/" + e.Parameter.Name
		kind = typeWords(e.Parameter.Schema.Value)
	}
	var parse *openapi3filter.ParseError
	switch {
	case errors.Is(e.Err, openapi3filter.ErrInvalidRequired):
		*into = append(*into, gen.FieldError{Pointer: at, Detail: "is required"})
	case errors.Is(e.Err, openapi3filter.ErrInvalidEmptyValue):
		*into = append(*into, gen.FieldError{Pointer: at, Detail: "must not be empty"})
	case errors.As(e.Err, &parse):
		*into = append(*into, gen.FieldError{Pointer: at, Detail: "must be " + kind})
	default:
		collectFaults(into, e.Err, at)
	}
}

// schemaFault says which rule of the schema was broken, and where.
func schemaFault(e *openapi3.SchemaError, at string) gen.FieldError {
	var b strings.Builder
	b.WriteString(at)
	for _, key := range e.JSONPointer() {
		b.WriteString("/" + pointerEscape(key))
	}
	return gen.FieldError{Pointer: b.String(), Detail: ruleWords(e)}
}

func ruleWords(e *openapi3.SchemaError) string {
	s := e.Schema
	switch e.SchemaField {
	case "required":
		return "is required"
	case "properties", "additionalProperties":
		return "unknown field"
	case "type", "nullable":
		return "must be " + typeWords(s)
	case "enum":
		return fmt.Sprintf("must be one of %v", s.Enum)
	case "pattern":
		return "must match " + s.Pattern
	case "minLength":
		return fmt.Sprintf("must have at least %d characters", s.MinLength)
	case "maxLength":
		return fmt.Sprintf("must have at most %d characters", *s.MaxLength)
	case "minimum":
		return fmt.Sprintf("must be at least %v", *s.Min)
	case "maximum":
		return fmt.Sprintf("must be at most %v", *s.Max)
	case "maxItems":
		return fmt.Sprintf("must be there at most %d times", *s.MaxItems)
	case "maxProperties":
		return fmt.Sprintf("must have at most %d entries", *s.MaxProps)
	case "format":
		return "must be of the format " + s.Format
	default:
		return "breaks the rule " + e.SchemaField
	}
}

func typeWords(s *openapi3.Schema) string {
	switch {
	case s.Type.Is(openapi3.TypeObject):
		return "an object"
	case s.Type.Is(openapi3.TypeArray):
		return "an array"
	case s.Type.Is(openapi3.TypeInteger):
		return "an integer"
	case s.Type.Is(openapi3.TypeBoolean):
		return "true or false"
	default:
		return "a string"
	}
}
