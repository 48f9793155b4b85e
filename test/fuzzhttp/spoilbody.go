package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// values are of every type, and at the edges of some.
var values = []string{
	`null`, `true`, `false`, `0`, `-1`, `1.5`, `1e999`, `9223372036854775808`, `""`, `" "`, `"x"`, `"\u0000"`, `"\ud800"`, `"\n"`, `"ü"`, `"` + "\xff" + `"`,
	`[]`, `[[]]`, `["x"]`, `{}`, `{"":""}`, `{"a":{"b":{}}}`, `"..`, `nul`, `"` + strings.Repeat("v", 300) + `"`, `"proxy-1"`, `"PROXY"`, `"a.b"`, `"-"`,
	`"#cloud-config ` + sentinel + `"`, `"bm90IGEgc2VjcmV0"`, `"====="`, `[` + strings.Repeat(`[`, 400) + strings.Repeat(`]`, 400) + `]`,
}

// spoilBody breaks a JSON body in one way, and keeps its length right.
func (m *maker) spoilBody(r *request) {
	var object map[string]json.RawMessage
	if json.Unmarshal(r.body, &object) != nil || m.oneIn(4) {
		r.setBody(m.spoilText(r.body))
		return
	}
	keys := sortedKeys(object)
	if len(keys) == 0 {
		return
	}
	key := pick(m, keys...)
	switch m.IntN(5) {
	case 0:
		delete(object, key)
	case 1:
		object[pick(m, "surprise", "Name", "", "cloud-init", "__proto__", "uid ", "tags.pool", "a/b~c")] = json.RawMessage(`1`)
	case 2:
		object["tags"] = m.oddTags()
	case 3:
		object["cloudInit"], object["cloudInitBase64"] = json.RawMessage(`"`+sentinel+`"`), json.RawMessage(pick(m, values...))
	default:
		object[key] = json.RawMessage(pick(m, values...))
	}
	r.setBody(assemble(object))
}

// assemble writes an object whose values need not be JSON.
func assemble(object map[string]json.RawMessage) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range sortedKeys(object) {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(key)
		if err != nil {
			panic(err) // a string
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(object[key])
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (m *maker) oddTags() json.RawMessage {
	tags := map[string]json.RawMessage{}
	for range m.IntN(40) {
		key := pick(m, "", "a", "pool", "ü", "a b", strings.Repeat("k", 64), "k/"+strings.Repeat("x", m.IntN(60)))
		value := pick(m, values...)
		if strings.Contains(value, sentinel) {
			value = `"egress"` // a tag comes back, and may
		}
		tags[key] = json.RawMessage(value)
	}
	return assemble(tags)
}

// spoilText breaks JSON as a text.
func (m *maker) spoilText(body []byte) []byte {
	body = bytes.Clone(body)
	switch m.IntN(8) {
	case 0:
		return append(body, pick(m, "x", "{}", "\x00", "]", " \n", ",")...)
	case 1:
		return body[:m.IntN(len(body))]
	case 2:
		return []byte(pick(m, values...))
	case 3:
		return bytes.Replace(body, []byte("{"), []byte(`{"name":"twice",`), 1)
	case 4:
		return append([]byte("\xef\xbb\xbf"), body...)
	case 5:
		return bytes.ReplaceAll(body, []byte(`"`), []byte(`'`))
	case 6:
		return append(append([]byte("["), body...), ']')
	default:
		for range 1 + m.IntN(4) {
			body[m.IntN(len(body))] = byte(m.IntN(256))
		}
		return body
	}
}
