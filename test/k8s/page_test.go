//go:build k8s

package k8s_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// pageTimeout bounds all commands of the page together; the conformance suite takes most of it.
const pageTimeout = 15 * time.Minute

const pageNamespace = "by-the-page"

// administrator does what the page asks of people: each key that it makes goes onto the hosts.
const administrator = `
ssh-keygen() {
  command ssh-keygen "$@"
  [[ $1 == -q ]] || return 0
  for host in h1 h2; do test/lab/lab exec "$host" sh -c 'cat >>/run/kvm2d/authorized_keys' <"${!#}.pub"; done
}
`

// TestInstallPage types what docs/operations/install.md says, block by block in
// one shell, up to and including the removal. The page's own variables say what
// is different here.
func TestInstallPage(t *testing.T) {
	blocks, err := os.ReadFile(os.Getenv("KVM2D_K8S_PAGE"))
	if err != nil {
		t.Fatal(err)
	}
	// A comment before each block tells where in the page it is.
	script := strings.ReplaceAll("set -euo pipefail\n"+administrator+string(blocks), "\n# docs/", "\necho; echo ==\\> docs/")
	explainFailure(t, pageNamespace)
	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.WaitDelay = time.Second
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(),
		"NAMESPACE="+pageNamespace, "HOST="+addressOf(t, "h1."+domainOfLab),
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
