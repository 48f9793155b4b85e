package main

import (
	"strings"
	"testing"
)

func TestParseStage_refusesWhatItDoesNotKnow(t *testing.T) {
	const good = "FROM scratch AS a\nCOPY --from=build /out /\n"
	for dockerfile, want := range map[string]string{
		"":                                "want a stage",
		"FROM debian AS a\n":              "want a stage",
		"FROM scratch AS a\nUSER 1\n":     "want a stage",
		good + "RUN true\n":               "RUN true: not known here",
		good + "ENTRYPOINT /a\n":          "ENTRYPOINT /a: ",
		good + "LABEL a=b\n":              `want key="value"`,
		good + "COPY a /\n":               "want COPY --from",
		good + "COPY --from=b /out /\n":   "got 2 of them",
		good + "USER \\\n1\nSHELL [\"\"]": "SHELL",
	} {
		if _, err := parseStage(dockerfile, "a", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", dockerfile, err, want)
		}
	}
	if _, err := parseStage(good+"USER 7\n# RUN\nFROM scratch AS b\nRUN true\n", "a", nil); err != nil {
		t.Errorf("got %v, want another stage to be nobody's business", err)
	}
}

// An argument without a value in the build has the stage's own.
func TestParseStage_arguments(t *testing.T) {
	const dockerfile = "FROM scratch AS a\nARG V=devel\nARG R=none\nCOPY --from=build /out /\nLABEL v=\"${V}\" \\\n  r=\"of ${R}\"\n"
	got, err := parseStage(dockerfile, "a", map[string]string{"V": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Labels["v"] != "1" || got.Labels["r"] != "of none" {
		t.Errorf("got labels %v", got.Labels)
	}
}
