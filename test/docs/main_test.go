package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPages holds the project's own pages: all that needs no real host.
func TestPages(t *testing.T) {
	o := options{root: "../..", run: canRun(t)}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		t.Fatal(err)
	}
	r, err := examine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.found {
		t.Error(f)
	}
	var totals strings.Builder
	r.print(&totals)
	t.Log(totals.String())
	if r.pages < 15 || r.links.inside < 20 || o.run && r.tally.run["sim"] < 5 {
		t.Errorf("this can't be all:\n%s", totals.String())
	}
}

// canRun reports whether shells can have a network of their own here. Root on
// Linux can, and everybody where user namespaces are open to all.
func canRun(t *testing.T) bool {
	t.Helper()
	argv := append(ownNetwork(), "ip", "link", "set", "lo", "up")
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err == nil {
		return true
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("no network of one's own: %v: %s", err, out)
	}
	t.Logf("blocks are not run: no network of one's own here: %v: %s", err, out)
	return false
}

// project writes files into a folder that git knows.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "'''", "```")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return root
}

func TestExamine_findsWhatIsWrongWithAPage(t *testing.T) {
	const configuration = "kvm2:\n  hosts:\n    - {name: a, uri: \"qemu:///system\", bridge: br0}\n"
	tests := map[string]struct {
		page string
		want string // part of the only finding; "" for none
	}{
		"link to a page":                 {"[a](docs/b.md)", ""},
		"link to a folder":               {"[a](docs/)", ""},
		"link to an anchor":              {"[a](docs/b.md#two-words-or-more)", ""},
		"link to a repeated heading":     {"[a](docs/b.md#same-1)", ""},
		"link to an own anchor":          {"# Here\n[a](#here)", ""},
		"link in code":                   {"`[a](nowhere.md)`", ""},
		"link with code as its text":     {"[`a`](nowhere.md)", "README.md:1: link nowhere.md: there is no nowhere.md"},
		"link to nothing":                {"x\n[a](docs/c.md)", "README.md:2: link docs/c.md: there is no docs/c.md"},
		"link to a heading that left":    {"[a](docs/b.md#three)", "docs/b.md has no heading #three"},
		"link to a repeat that is none":  {"[a](docs/b.md#same-2)", "no heading #same-2"},
		"anchor of what is no page":      {"[a](docs/#x)", "no page that has anchors"},
		"link out of the project":        {"[a](../b.md)", "leads out of the project"},
		"absolute link":                  {"[a](/docs/b.md)", "leads out of the project"},
		"file with a slash":              {"[a](docs/b.md/)", "is no folder"},
		"definition of a link":           {"[a]\n\n[a]: nowhere.md", "README.md:3: link nowhere.md"},
		"URL":                            {"[a](https://example.net/x#y) <https://example.net>", ""},
		"URL of another scheme":          {"[a](htps://example.net)", "scheme htps"},
		"URL without a host":             {"[a](https:///x)", "no host name"},
		"URL with a password":            {"[a](https://me:secret@example.net/)", "has credentials"},
		"em-dash":                        {"it is \u2014 so to say \u2014 here", "U+2014"},
		"curly quote":                    {"it\u2019s", "U+2019"},
		"no-break space":                 {"a\u00a0b", "U+00A0"},
		"em-dash in code":                {"'''text\n\u2014\n'''", ""},
		"hyphen as a dash":               {"it is - so to say - here", "a hyphen as a dash"},
		"two hyphens as a dash":          {"it is -- here", "a hyphen as a dash"},
		"hyphens that are none":          {"- a well-known list\n- `a - b`\n\n| a | - | b |\n| --- | --- | --- |", ""},
		"YAML":                           {"'''yaml\na: {b: 1}\n'''", ""},
		"YAML that is none":              {"'''yaml\na: {b: 1\n'''", "README.md:1: not YAML"},
		"YAML with a key twice":          {"'''yaml\na: 1\na: 2\n'''", "already defined"},
		"configuration":                  {"'''yaml\n" + configuration + "'''", ""},
		"configuration with a wrong key": {"'''yaml\n" + configuration + "  colour: red\n'''", "kvm2.colour"},
		"JSON that is none":              {"'''json\n{\"a\": }\n'''", "not JSON"},
		"same as a file":                 {"<!-- same as: docs/sample.txt -->\n'''text\nsample\n'''", ""},
		"not the same as the file":       {"<!-- same as: docs/sample.txt -->\n'''text\nother\n'''", "out of date: make generate"},
		"configuration that is old":      {referenceBegin + "| key |\n" + referenceEnd, "out of date: make generate"},
		"configuration without an end":   {referenceBegin + "| key |\n", "has no end"},
		"same as no file":                {"<!-- same as: docs/x.txt -->\n'''text\nother\n'''", "no such file"},
		"block without an end":           {"'''sh\ntrue\n", "the block does not end"},
		"unknown mark":                   {"<!-- run: moon -->\n'''sh\ntrue\n'''", `unknown mark "run: moon"`},
		"not run and no reason":          {"<!-- not run: -->\n'''sh\ntrue\n'''", "unknown mark"},
		"run and not run":                {"<!-- run: sim; not run: why -->\n'''sh\ntrue\n'''", "run or not run"},
		"mark that is lost":              {"<!-- not run: why -->\ntext\n'''sh\ntrue\n'''", "README.md:1: a mark without a block"},
		"other comment":                  {"<!-- generated by hand -->\ntext", ""},
		"block for the cluster":          {"<!-- run: k8s -->\n'''sh\ntrue\n'''", "test/k8s/run does not extract"},
		"block of no language":           {"'''\nrm -r x\n'''", "a block's language is one of"},
		"names that exist":               {"`make demo KEEP=1` `kvm2d serve --simulate` `kvm2d_up` `limits.requests` `kvm2.hosts[].jump.uri` `kvm2.sizes.NAME` `kvm2.dial`", ""},
		"target that left":               {"`make demos`", "there is no make demos"},
		"command that left":              {"x\n`kvm2d start --config x`", "README.md:2: there is no kvm2d start"},
		"key that left":                  {"set `kvm2.hosts[].url`", "there is no kvm2.hosts[].url"},
		"metric that left":               {"`kvm2d_down`", "there is no kvm2d_down"},
		"block in a list":                {"- a\n  '''yaml\n  a: {b\n  '''", "README.md:2: not YAML"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := project(t, map[string]string{
				"README.md": tt.page, "docs/b.md": "# Two `words`, or more\n## Same\n## Same\n", "docs/sample.txt": "sample\n",
				"Makefile": "demo: ## Boot\n", "cmd/kvm2d/serve.go": "Use:   \"serve FILE\",\n", "docs/operations/monitoring.md": "`kvm2d_up`\n",
				"test/k8s/run": "go run ./test/docs -extract k8s docs/other.md\n",
			})
			r, err := examine(t.Context(), options{root: root})
			if err != nil {
				t.Fatal(err)
			}
			// Which pages are reached is another test's matter.
			found := slices.DeleteFunc(r.found, func(f finding) bool { return f.text == unreached })
			checkFindings(t, found, tt.want)
		})
	}
}

// checkFindings wants one finding with the text want in it, or none if want is "".
func checkFindings(t *testing.T, found []finding, want string) {
	t.Helper()
	switch {
	case want == "" && len(found) > 0:
		t.Errorf("got %v, want nothing", found)
	case want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), want)):
		t.Errorf("got %v, want one finding with %q", found, want)
	}
}

func TestExamine_runsBlocks(t *testing.T) {
	if !canRun(t) {
		t.Skip("no network of one's own")
	}
	tests := map[string]struct {
		page string
		want string
		runs int // blocks in sim
	}{
		"one shell":                  {"'''sh\na=1; mkdir x; cd x\n'''\n'''bash\n[[ $a == 1 && $PWD == */x ]]\n'''", "", 2},
		"a failing command":          {"text\n'''sh\necho before\nfalse\necho after\n'''", "README.md:2: a command failed\n  before", 0},
		"a failing pipe":             {"'''sh\nfalse | cat\n'''", "a command failed", 0},
		"an unknown command":         {"'''sh\nno-such-thing\n'''", "no-such-thing: command not found", 0},
		"a variable of nobody":       {"'''sh\necho $nobody\n'''", "unbound variable", 0},
		"an early end":               {"'''sh\nexit 0\n'''", "a command failed", 0},
		"nothing after a failure":    {"'''sh\nfalse\n'''\n'''sh\ntrue\n'''", "README.md:1:", 0},
		"output":                     {"'''console\n$ echo a; echo b\na\nb\n$ echo \\\n    c\nc\n'''", "", 1},
		"other output":               {"'''console\n$ echo a\nb\n'''", "echo a prints\n  a\nand the page says\n  b", 0},
		"more output":                {"'''console\n$ echo a; echo b\na\n'''", "and the page says", 0},
		"left-out output":            {"'''console\n$ seq 5\n1\n...\n5\n'''", "", 1},
		"console without command":    {"'''console\nhello\n'''", "begins with a command", 0},
		"a file":                     {"<!-- file: a.yaml -->\n'''yaml\na: 1\n'''\n'''sh\ngrep -x 'a: 1' a.yaml\n'''", "", 1},
		"the simulated daemon":       {"'''sh\ncurl -fsS localhost:8080/version\n'''", "", 1},
		"what a read shows later":    {"'''console\n$ kvm2d create a --placement sim-1 -o name\nhosts/sim-1/domains/a\n$ curl -s localhost:8080/instances?state=Running | grep -c '\"ip\"' || true\n1\n'''", "", 1},
		"a daemon of the page":       {"<!-- serves -->\n'''sh\nkvm2d serve --simulate --listen 127.0.0.1:8081\n'''\n'''sh\ncurl -fsS localhost:8081/version\n! curl -fsS localhost:8080/version\n'''", "", 2},
		"the second daemon":          {"<!-- serves -->\n'''sh\nkvm2d serve --simulate\n'''\n<!-- serves -->\n'''sh\nkvm2d serve --simulate\n'''", "", 2},
		"a daemon that dies":         {"<!-- serves -->\n'''sh\nkvm2d serve --config none.yaml\n'''", "none.yaml", 0},
		"no other network":           {"'''sh\n[[ $(ls /sys/class/net | wc -l) -ge 1 ]]; ! curl -s --max-time 5 http://192.0.2.1/\n'''", "", 1},
		"not run":                    {"<!-- not run: as it would burn -->\n'''sh\nfalse\n'''", "", 0},
		"for real hosts":             {"<!-- run: lab -->\n'''sh\nfalse\n'''", "", 0},
		"for the cluster":            {"<!-- run: k8s -->\n'''sh\nfalse\n'''", "", 0},
		"what is no shell's":         {"'''text\nfalse\n'''", "", 0},
		"a clone of the last commit": {"'''sh\ngit clone -q https://gitea.home.hrajfrisbee.cz/kacerr/kvm2d\ntest -e kvm2d/go.mod\n'''", "", 1},
	}
	run, err := newRunner(t.Context(), mustAbs(t, "../.."), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, found := parsePage("README.md", strings.ReplaceAll(tt.page, "'''", "```"))
			if len(found) > 0 {
				t.Fatal(found)
			}
			ran := newTally()
			checkFindings(t, run.visit(t.Context(), p, ran), tt.want)
			if got := ran.run["sim"]; got != tt.runs {
				t.Errorf("got %d blocks run, want %d", got, tt.runs)
			}
		})
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func TestRunner_countsWhatItLeavesOut(t *testing.T) {
	p, _ := parsePage("README.md", strings.ReplaceAll("<!-- not run: why -->\n'''sh\n'''\n<!-- not run: why -->\n'''sh\n'''\n<!-- run: k8s -->\n'''sh\n'''\n<!-- run: host beelink -->\n'''sh\n'''\n", "'''", "```"))
	r := &runner{work: t.TempDir()}
	got := newTally()
	if found := r.visit(t.Context(), p, got); len(found) > 0 {
		t.Fatal(found)
	}
	want := map[string]int{"why": 2, noLab: 1}
	if diff := cmp.Diff(want, got.unrun); diff != "" {
		t.Errorf("not run (-want +got):\n%s", diff)
	}
	if got.cluster != 1 {
		t.Errorf("got %d blocks for the cluster, want 1", got.cluster)
	}
}

// TestShell_endsWithItsCaller: a block that hangs costs its limit, not the run.
func TestShell_endsWithItsCaller(t *testing.T) {
	if !canRun(t) {
		t.Skip("no network of one's own")
	}
	s, err := startShell(t.Context(), ownNetwork(), []string{"PATH=" + os.Getenv("PATH")}, "/", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hangs := filepath.Join(t.TempDir(), "hangs")
	var watch sync.WaitGroup
	watch.Go(func() {
		for tick := time.Tick(5 * time.Millisecond); ctx.Err() == nil; <-tick {
			if _, err := os.Stat(hangs); err == nil {
				cancel()
			}
		}
	})
	out, err := s.run(ctx, "run", "echo before; sleep 1000 & touch "+hangs+"; sleep 1000\n")
	cancel()
	watch.Wait()
	if !errors.Is(err, context.Canceled) || out != "before" {
		t.Errorf("got %q, %v; want before, cancelled", out, err)
	}
}

func TestExtract_printsTheBlocksOfAPlace(t *testing.T) {
	root := project(t, map[string]string{"a.md": "'''sh\nno\n'''\n<!-- run: k8s -->\n'''sh\nkubectl get pods\n'''\n"})
	var got strings.Builder
	if err := extractBlocks(t.Context(), &got, options{root: root, pages: []string{"a.md"}}, placeK8s); err != nil {
		t.Fatal(err)
	}
	if want := "# a.md:5\nkubectl get pods\n\n"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}

// TestWritePages: what is written is what is wanted, and a second time changes nothing.
func TestWritePages(t *testing.T) {
	root := project(t, map[string]string{
		"a.md": "<!-- same as: one.txt -->\n'''text\nold\n'''\nbetween\n<!-- same as: two.txt -->\n'''text\n'''\n" +
			referenceBegin + "| old |\n" + referenceEnd + "after\n",
		"one.txt": "1\n11\n", "two.txt": "2\n",
	})
	for range 2 {
		if err := writePages(t.Context(), options{root: root}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(root, "a.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll("<!-- same as: one.txt -->\n'''text\n1\n11\n'''\nbetween\n<!-- same as: two.txt -->\n'''text\n2\n'''\n", "'''", "```") +
		referenceBegin + table + referenceEnd + "after\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	for _, row := range []string{
		"| `kvm2.hosts[].jump.uri` | needed | ", "| `kvm2.images.NAME.firmware` | `uefi` | ", "| `limits.createsPerHost` | `3` | ", "| `timeouts.transfer` | `20m` | ",
	} {
		if !strings.Contains(table, "\n"+row) {
			t.Errorf("the reference has no row %q", row)
		}
	}
}

func TestCheckReached(t *testing.T) {
	root := project(t, map[string]string{
		"README.md": "[a](a.md#x)", "a.md": "# x\n[folder](folder/) [README](README.md)", "folder/b.md": "b", "folder/deep/c.md": "c", "d.md": "[a](a.md)",
	})
	r, err := examine(t.Context(), options{root: root})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.found {
		got = append(got, f.String())
	}
	slices.Sort(got)
	want := []string{"d.md: no link leads here from README.md", "folder/deep/c.md: no link leads here from README.md"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
