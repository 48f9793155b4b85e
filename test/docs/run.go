package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// blockLimit is how long one block may take, with what it compiles.
	blockLimit = 10 * time.Minute
	// readLimit is how long a command that only reads is given again.
	readLimit = 30 * time.Second
)

// runner runs the blocks of pages.
type runner struct {
	root  string   // of the project
	work  string   // a folder of its own
	env   []string // of all shells
	lab   bool     // the two hosts are there
	hosts map[string]string
}

// newRunner builds kvm2d and returns a runner that works in the folder work.
func newRunner(ctx context.Context, root, work string, lab bool) (*runner, error) {
	bin, home := filepath.Join(work, "bin"), filepath.Join(work, "home")
	for _, dir := range []string{bin, home, filepath.Join(work, "tmp")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	// The project's own address leads to this tree, as it was last committed, whoever owns it.
	git := fmt.Sprintf("[url \"file://%s\"]\n\tinsteadOf = https://gitea.home.hrajfrisbee.cz/kacerr/kvm2d\n[safe]\n\tdirectory = *\n", root)
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(git), 0o600); err != nil {
		return nil, err
	}
	// As make build does it, which a page runs: what is compiled for the one is there for the other.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "./cmd/kvm2d")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kvm2d: %w\n%s", err, out)
	}
	caches, err := exec.CommandContext(ctx, "go", "env", "GOCACHE", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	dirs := strings.Fields(string(caches))
	if len(dirs) != 3 {
		return nil, fmt.Errorf("go env: %q", dirs)
	}
	env := []string{
		"PATH=" + bin + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + home, "TMPDIR=" + filepath.Join(work, "tmp"),
		"LC_ALL=C.UTF-8", "TZ=UTC", "GOCACHE=" + dirs[0], "GOMODCACHE=" + dirs[1], "GOPROXY=off",
	}
	for _, kept := range []string{"KVM2D_LAB", "KVM2D_LAB_ID", "KVM2D_LAB_IMAGES"} {
		if v, ok := os.LookupEnv(kept); ok {
			env = append(env, kept+"="+v)
		}
	}
	return &runner{root: root, work: work, env: env, lab: lab, hosts: map[string]string{"beelink": "h1", "rack-2": "h2"}}, nil
}

// openMirror serves the images of the pages, as the script world asks; all shells trust it.
func (r *runner) openMirror(ctx context.Context) (stop func(), err error) {
	ca := filepath.Join(r.work, "mirror.crt")
	r.env = append(r.env, "SSL_CERT_FILE="+ca)
	return serveMirror(ctx, os.Getenv("KVM2D_DOCS_MIRROR"), os.Getenv("KVM2D_DOCS_IMAGE"), ca)
}

// tally is what became of blocks.
type tally struct {
	run     map[place]int
	cluster int            // left to make test-k8s
	unrun   map[string]int // by reason
}

func newTally() *tally { return &tally{run: map[place]int{}, unrun: map[string]int{}} }

// visit is one page's run.
type visit struct {
	*runner
	page   *page
	work   string // a folder that is removed with all others
	cwd    string // where the last block left its shell; the next new one begins there
	shells map[place]*shell
}

// visit runs the blocks of p, in order; after one that fails the rest of the
// page is not tried.
func (r *runner) visit(ctx context.Context, p *page, t *tally) []finding {
	work, err := os.MkdirTemp(r.work, "page-")
	if err != nil {
		return []finding{{p.path, 0, err.Error()}}
	}
	v := &visit{runner: r, page: p, work: work, cwd: filepath.Join(work, "folder"), shells: map[place]*shell{}}
	defer func() {
		for s := range maps.Values(v.shells) {
			s.close()
		}
	}()
	if err := v.prepare(ctx); err != nil {
		return []finding{{p.path, 0, err.Error()}}
	}
	for _, b := range p.blocks {
		if b.mark.file != "" {
			if err := os.WriteFile(filepath.Join(v.cwd, b.mark.file), []byte(b.text), 0o600); err != nil {
				return []finding{{p.path, b.number, err.Error()}}
			}
		}
		if !b.shell() || b.mark.file != "" || b.mark.sameAs != "" {
			continue
		}
		if b.mark.place == placeK8s {
			t.cluster++
			continue
		}
		where, why := r.placeOf(b)
		if why != "" {
			t.unrun[why]++
			continue
		}
		if err := v.block(ctx, b, where); err != nil {
			return []finding{{p.path, b.number, err.Error()}}
		}
		t.run[where]++
	}
	return nil
}

// prepare makes an empty folder, and the hosts as they were if the page has to do with them.
func (v *visit) prepare(ctx context.Context) error {
	if err := os.Mkdir(v.cwd, 0o755); err != nil {
		return err
	}
	if !v.lab || !slices.ContainsFunc(v.page.blocks, func(b block) bool { return b.mark.place.real() }) {
		return nil
	}
	out, err := exec.CommandContext(ctx, filepath.Join(v.root, "test/docs/reset")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("reset of the hosts: %w\n%s", err, indented(string(out)))
	}
	return nil
}

// placeOf returns where b runs, or why it does not.
func (r *runner) placeOf(b block) (where place, why string) {
	switch where = b.mark.place; {
	case b.mark.why != "":
		return "", b.mark.why
	case where == "":
		return placeSim, ""
	case where != placeSim && !r.lab:
		return "", noLab
	default:
		return where, ""
	}
}

// noLab is the one reason that is not a page's own.
const noLab = "no lab in this run; make docs-test has one"

func (v *visit) block(ctx context.Context, b block, where place) error {
	s, ok := v.shells[where]
	if !ok {
		var err error
		if s, err = v.open(ctx, where); err != nil {
			return fmt.Errorf("a shell in %s: %w", where, err)
		}
		v.shells[where] = s
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	defer func() { v.cwd = s.cwd }()
	if b.lang == "console" {
		return runConsole(ctx, s, b.text)
	}
	verb := "run"
	if b.mark.serves {
		verb = "serve"
	}
	out, err := s.run(ctx, verb, b.text)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, indented(out))
	}
	return nil
}

func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, blockLimit, errors.New("it takes too long"))
}

// open starts a shell. One with simulated hosts is alone on its network; it has
// a daemon at the usual address unless the page itself starts one.
func (v *visit) open(ctx context.Context, where place) (*shell, error) {
	env := slices.Clone(v.env)
	var prefix []string
	switch where {
	case placeSim:
		prefix = ownNetwork()
		env = append(env, "DOCS_OWN_NETWORK=1")
	case placeLab:
		// A demo makes hosts of its own, beside those of the pages.
		env = append(env, "KVM2D_LAB="+os.Getenv("KVM2D_DOCS_DEMO"), "KVM2D_LAB_ID=0")
	default:
		host, ok := v.hosts[where.hostOf()]
		if !ok {
			return nil, errors.New("there is no such host")
		}
		prefix = []string{filepath.Join(v.root, "test/lab/lab"), "exec", host}
	}
	s, err := startShell(ctx, prefix, env, v.cwd, v.work)
	if err != nil {
		return nil, err
	}
	startsOne := slices.ContainsFunc(v.page.blocks, func(b block) bool { return b.mark.serves && b.mark.place != placeLab })
	if where == placeSim && !startsOne {
		ctx, cancel := limited(ctx)
		defer cancel()
		if out, err := s.run(ctx, "serve", "kvm2d serve --simulate\n"); err != nil {
			s.close()
			return nil, fmt.Errorf("%w\n%s", err, indented(out))
		}
	}
	return s, nil
}

// ownNetwork is the start of a command that sees loopback only, and whose
// processes end with it.
func ownNetwork() []string {
	argv := []string{"unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		argv = append(argv, "--map-root-user")
	}
	return argv
}

func runConsole(ctx context.Context, s *shell, text string) error {
	steps, err := parseConsole(text)
	if err != nil {
		return err
	}
	for _, step := range steps {
		end := time.Now().Add(readLimit)
		for {
			out, err := s.run(ctx, "run", step.command+"\n")
			if err != nil {
				return fmt.Errorf("%w: %s\n%s", err, step.command, indented(out))
			}
			if agrees(step.output, out) {
				break
			}
			if !step.onlyReads() || time.Now().After(end) {
				return fmt.Errorf("%s prints\n%s\nand the page says\n%s", step.command, indented(out), indented(step.output))
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func indented(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
