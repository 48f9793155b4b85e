//go:build k8s

package k8s_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pageTimeout bounds all commands of the page together; the conformance suite takes most of it.
const pageTimeout = 15 * time.Minute

const pageNamespace = "by-the-page"

// TestInstallPage types what docs/operations/install.md says, block by block in
// one shell, up to and including the removal. The page's own variables say what
// is different here.
func TestInstallPage(t *testing.T) {
	blocks, err := os.ReadFile(os.Getenv("KVM2D_K8S_PAGE"))
	if err != nil {
		t.Fatal(err)
	}
	// A comment before each block tells where in the page it is.
	script := strings.ReplaceAll("set -euo pipefail\n"+string(blocks), "\n# docs/", "\necho; echo ==\\> docs/")
	explainFailure(t, pageNamespace)
	authorize(t, labFile(t, "keys/id_ed25519.pub"))
	lab := os.Getenv("KVM2D_LAB")
	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.WaitDelay = time.Second
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(),
		"NAMESPACE="+pageNamespace, "HOST="+addressOf(t, "h1."+domainOfLab), "SSH_KEY="+filepath.Join(lab, "keys/id_ed25519"),
		"FILES="+t.TempDir(),
		// A content of its own: the one that TestChart left in use could not be removed.
		"IMAGE_URL="+imagesURL+"/tiny.qcow2?page",
	)
	out, err := cmd.CombinedOutput()
	t.Logf("\n%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if got := domains(t, "h1"); len(got) > 1 || len(got) == 1 && got[0] != instanceName {
		t.Errorf("domains on h1 after the page: %v", got)
	}
}

// addressOf looks a name up where Pods do.
func addressOf(t *testing.T, name string) string {
	t.Helper()
	addresses, err := clusterResolver(t).LookupHost(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}
