package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// imageConfig says how the image runs, in the words of the OCI's image specification.
type imageConfig struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
}

// parseStage reads the stage called name, which must be FROM scratch and copy one
// folder to /. arguments replace the defaults of its ARG lines. It knows the
// instructions that such a stage needs, and takes any other for an error.
func parseStage(dockerfile, name string, arguments map[string]string) (imageConfig, error) {
	s := stage{
		config:    imageConfig{ExposedPorts: map[string]struct{}{}, Labels: map[string]string{}, WorkingDir: "/"},
		given:     arguments,
		arguments: map[string]string{},
	}
	inside := false
	for _, line := range instructions(dockerfile) {
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" {
			inside = rest == "scratch AS "+name
			continue
		}
		if !inside {
			continue
		}
		if err := s.instruction(word, strings.TrimSpace(rest)); err != nil {
			return imageConfig{}, fmt.Errorf("%s: %w", line, err)
		}
	}
	if s.copies != 1 {
		return imageConfig{}, fmt.Errorf("want a stage %q FROM scratch with one COPY --from=STAGE /out /, got %d of them", name, s.copies)
	}
	return s.config, nil
}

// instructions are the lines of a Dockerfile without comments, continued lines joined.
func instructions(dockerfile string) []string {
	var out []string
	joined := ""
	for line := range strings.Lines(dockerfile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		before, continued := strings.CutSuffix(line, `\`)
		joined += before
		if !continued {
			out = append(out, joined)
			joined = ""
		}
	}
	return out
}

// stage is a stage on its way.
type stage struct {
	config imageConfig
	// given are the build arguments; arguments those that the stage declared.
	given, arguments map[string]string
	copies           int
}

func (s *stage) instruction(word, rest string) error {
	switch word {
	case "ARG":
		key, value, _ := strings.Cut(rest, "=")
		if given, ok := s.given[key]; ok {
			value = given
		}
		s.arguments[key] = value
	case "LABEL":
		return s.labels(rest)
	case "COPY":
		if !copyRE.MatchString(rest) {
			return errors.New("want COPY --from=STAGE /out /")
		}
		s.copies++
	case "USER":
		s.config.User = rest
	case "EXPOSE":
		for port := range strings.FieldsSeq(rest) {
			s.config.ExposedPorts[port+"/tcp"] = struct{}{}
		}
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &s.config.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(rest), &s.config.Cmd)
	default:
		return errors.New("not known here")
	}
	return nil
}

var (
	copyRE  = regexp.MustCompile(`^--from=[a-z-]+ /out /$`)
	labelRE = regexp.MustCompile(`^([a-z.]+)="([^"]*)"\s*`)
)

// labels reads key="value" pairs, and puts arguments where a value names them.
func (s *stage) labels(text string) error {
	for text != "" {
		m := labelRE.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf(`want key="value", got %s`, text)
		}
		s.config.Labels[m[1]] = os.Expand(m[2], func(arg string) string { return s.arguments[arg] })
		text = text[len(m[0]):]
	}
	return nil
}
