package http

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
	c := faultCollector{opened: map[string]bool{}}
	c.collect(err, "#")
	if len(c.faults) == 0 {
		c.add("#", "is not what the contract says")
	}
	return c.faults
}

// faultCollector walks the error tree, at most maxFaults far.
type faultCollector struct {
	faults []gen.FieldError
	// opened are the objects whose unknown fields are listed already: the
	// validator has one error for each of them, and none names its field.
	opened map[string]bool
}

func (c *faultCollector) add(at, detail string) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, gen.FieldError{Pointer: at, Detail: detail})
	}
}

func (c *faultCollector) collect(err error, at string) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked node by node; errors.As would skip siblings
	case openapi3.MultiError:
		for _, sub := range e {
			c.collect(sub, at)
		}
	case *openapi3filter.RequestError:
		c.collectRequest(e)
	case *openapi3.SchemaError:
		c.collectSchema(e, at)
	default:
		c.add(at, "cannot be read")
	}
}

func (c *faultCollector) collectRequest(e *openapi3filter.RequestError) {
	at, kind := "#", "a JSON value"
	if e.Parameter != nil {
		at = e.Parameter.In + "/" + e.Parameter.Name
		kind = typeWords(e.Parameter.Schema.Value)
	}
	var parse *openapi3filter.ParseError
	switch {
	case errors.Is(e.Err, openapi3filter.ErrInvalidRequired):
		c.add(at, "is required")
	case errors.Is(e.Err, openapi3filter.ErrInvalidEmptyValue):
		c.add(at, "must not be empty")
	case errors.As(e.Err, &parse):
		c.add(at, "must be "+kind)
	default:
		c.collect(e.Err, at)
	}
}

// collectSchema says which rule of the schema was broken, and where.
func (c *faultCollector) collectSchema(e *openapi3.SchemaError, at string) {
	var b strings.Builder
	b.WriteString(at)
	for _, key := range e.JSONPointer() {
		b.WriteString("/" + pointerEscape(key))
	}
	at = b.String()
	if object, ok := e.Value.(map[string]any); ok && e.SchemaField == "properties" {
		c.addUnknown(at, object, e.Schema.Properties)
		return
	}
	c.add(at, ruleWords(e))
}

func (c *faultCollector) addUnknown(at string, object map[string]any, known openapi3.Schemas) {
	if c.opened[at] {
		return
	}
	c.opened[at] = true
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if _, ok := known[key]; !ok {
			c.add(at+"/"+pointerEscape(key), "unknown field")
		}
	}
}

func ruleWords(e *openapi3.SchemaError) string {
	s := e.Schema
	switch e.SchemaField {
	case "required":
		return "is required"
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
		return fmt.Sprintf("must be at least %.0f", *s.Min)
	case "maximum":
		return fmt.Sprintf("must be at most %.0f", *s.Max)
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
