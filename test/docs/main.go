package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// options are what a run does.
type options struct {
	root  string
	run   bool // the blocks, beside reading
	lab   bool
	pages []string // only these; all when empty
}

func start(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("docs", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the project's `folder`")
	flags.BoolVar(&o.run, "run", true, "run the blocks, beside reading the pages")
	flags.BoolVar(&o.lab, "lab", false, "this is the world that test/docs/run makes: run the blocks of lab and hosts, too")
	write := flags.Bool("write", false, "only write anew what pages have from other files")
	extract := flags.String("extract", "", "only print the blocks of a `place` from the pages given")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	o.root, o.pages = root, flags.Args()
	if *extract != "" {
		return extractBlocks(ctx, os.Stdout, o, place(*extract))
	}
	if *write {
		return writePages(ctx, o)
	}
	r, err := examine(ctx, o)
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	if len(r.found) > 0 {
		return fmt.Errorf("%d findings", len(r.found))
	}
	return nil
}

// report is what a run found and did.
type report struct {
	pages, blocks int
	ran           bool // the blocks
	links         linkCount
	tally         *tally
	found         []finding
}

func (r *report) print(out io.Writer) {
	for _, f := range r.found {
		fmt.Fprintln(out, f)
	}
	fmt.Fprintf(out, "%d pages, %d blocks of code\n", r.pages, r.blocks)
	fmt.Fprintf(out, "links: %d into the project followed, %d URLs looked at\n", r.links.inside, r.links.outside)
	if !r.ran {
		return
	}
	for _, where := range slices.Sorted(maps.Keys(r.tally.run)) {
		fmt.Fprintf(out, "run, %s: %d\n", where, r.tally.run[where])
	}
	fmt.Fprintf(out, "left to make test-k8s: %d\n", r.tally.cluster)
	for _, why := range slices.Sorted(maps.Keys(r.tally.unrun)) {
		fmt.Fprintf(out, "not run, %s: %d\n", why, r.tally.unrun[why])
	}
}

// examine reads all pages, and runs their blocks if o says so. An error means
// that it could not be done.
func examine(ctx context.Context, o options) (*report, error) {
	pages, found, err := readPages(ctx, o.root)
	if err != nil {
		return nil, err
	}
	r := &report{tally: newTally(), found: append(found, checkReached(pages)...)}
	chosen := slices.SortedFunc(maps.Values(pages), func(a, b *page) int { return cmp.Compare(a.path, b.path) })
	if len(o.pages) > 0 {
		chosen = slices.DeleteFunc(chosen, func(p *page) bool { return !slices.Contains(o.pages, p.path) })
		r.found = slices.DeleteFunc(r.found, func(f finding) bool { return !slices.Contains(o.pages, f.page) })
	}
	names, err := readVocabulary(o.root)
	if err != nil {
		return nil, err
	}
	for _, p := range chosen {
		r.read(o.root, p, pages)
		r.found = append(r.found, p.checkNames(names)...)
	}
	if !o.run || len(chosen) == 0 {
		return r, nil
	}
	work, err := os.MkdirTemp("", "kvm2d-docs-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	run, err := newRunner(ctx, o.root, work, o.lab)
	if err != nil {
		return nil, err
	}
	if o.lab {
		stop, err := run.openMirror(ctx)
		if err != nil {
			return nil, fmt.Errorf("the mirror: %w", err)
		}
		defer stop()
	}
	r.ran = true
	for _, p := range chosen {
		r.found = append(r.found, run.visit(ctx, p, r.tally)...)
	}
	return r, ctx.Err()
}

// writePages makes anew what pages have from other files.
func writePages(ctx context.Context, o options) error {
	pages, _, err := readPages(ctx, o.root)
	if err != nil {
		return err
	}
	for _, p := range pages {
		text, err := rewrite(o.root, p, p.text)
		if err != nil {
			return err
		}
		if text == p.text {
			continue
		}
		if err := os.WriteFile(filepath.Join(o.root, p.path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read does what needs no shell.
func (r *report) read(root string, p *page, pages map[string]*page) {
	r.pages++
	r.blocks += len(p.blocks)
	count, found := p.checkLinks(root, pages)
	r.links.inside += count.inside
	r.links.outside += count.outside
	r.found = append(append(r.found, found...), p.checkProse()...)
	for _, b := range p.blocks {
		r.found = append(r.found, checkSnippet(b)...)
	}
	if err := extracted(root, p); err != nil {
		r.found = append(r.found, finding{p.path, 0, err.Error()})
	}
	switch text, err := rewrite(root, p, p.text); {
	case err != nil:
		r.found = append(r.found, finding{p.path, 0, err.Error()})
	case text != p.text:
		r.found = append(r.found, finding{p.path, 0, "what it has from other files is out of date: make generate"})
	}
}

// extracted says that nobody runs the blocks that p leaves to the cluster.
func extracted(root string, p *page) error {
	if !slices.ContainsFunc(p.blocks, func(b block) bool { return b.mark.place == placeK8s }) {
		return nil
	}
	const runner = "test/k8s/run"
	script, err := os.ReadFile(filepath.Join(root, runner))
	if err != nil {
		return err
	}
	if !strings.Contains(string(script), "-extract "+string(placeK8s)+" "+p.path) {
		return fmt.Errorf("%s does not extract the blocks for k8s", runner)
	}
	return nil
}

// readPages parses every page that git has, or would have, and finds what is
// wrong with their form.
func readPages(ctx context.Context, root string) (pages map[string]*page, found []finding, err error) {
	cmd := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md")
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("git ls-files: %w", err)
	}
	pages = map[string]*page{}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if name == "" || strings.Contains(name, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return nil, nil, err
		}
		p, wrong := parsePage(name, string(text))
		pages[name], found = p, append(found, wrong...)
	}
	return pages, found, nil
}

// extractBlocks prints the blocks of the pages that are for where, each after a
// comment that says where it is from.
func extractBlocks(ctx context.Context, out io.Writer, o options, where place) error {
	pages, _, err := readPages(ctx, o.root)
	if err != nil {
		return err
	}
	for _, name := range o.pages {
		p, ok := pages[name]
		if !ok {
			return fmt.Errorf("no page %s", name)
		}
		for _, b := range p.blocks {
			if b.shell() && b.mark.place == where {
				fmt.Fprintf(out, "# %s\n%s\n", b, b.text)
			}
		}
	}
	return nil
}
