package http

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestProblemsPage_explainsEachAnswer holds that the page to which a problem's
// type leads has the reason, its kind, its status and what to do.
func TestProblemsPage_explainsEachAnswer(t *testing.T) {
	const page = "docs/problems.md"
	if got, want := path.Base(path.Dir(problemBase))+"/"+strings.TrimSuffix(path.Base(problemBase), "#"), page; got != want {
		t.Errorf("problems lead to %s, the page is %s", got, want)
	}
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{} // by the heading's anchor
	for _, m := range regexp.MustCompile(`(?ms)^### (\w+)\n(.*?)(?:\n\n|\z)`).FindAllStringSubmatch(string(text), -1) {
		sections[strings.ToLower(m[1])] = m[2]
	}
	for reason, a := range answers {
		problem := problemOf(t.Context(), &instance.Error{Reason: reason})
		section, ok := sections[strings.TrimPrefix(problem.Type, problemBase)]
		if !ok {
			t.Errorf("%s leads nowhere", problem.Type)
			continue
		}
		if want := fmt.Sprintf("Kind `%s`, status %d. ", reason.Kind(), a.status); !strings.HasPrefix(section, want) {
			t.Errorf("%s begins with %q, want %q", reason, strings.SplitAfterN(section, ".", 2)[0], want)
		}
	}
	for anchor, section := range sections {
		if !strings.Contains(section, "\n**Do:** ") {
			t.Errorf("%s does not say what to do", anchor)
		}
	}
}
