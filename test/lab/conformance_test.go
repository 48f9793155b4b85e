//go:build lab

package lab_test

import (
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/test/conformance"
)

// The black-box suite of the contract, with guests that really boot.
func TestConformance(t *testing.T) {
	report, err := conformance.Run(t.Context(), conformance.Settings{
		URL: kvm2d.api, Placement: "h1", CreateTimeout: 2 * time.Minute, BootTimeout: 3 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.String())
	if !report.Conforms() {
		t.Error("it does not conform")
	}
}
