// Command mutate breaks the code once per entry of breaks.txt, each a rule of
// the contract, and fails unless the entry's tests turn red. With -sample it
// breaks it in generated ways instead, and wants most of them noticed. The tree
// is not touched: the compiler reads the broken file in place of the real one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := flag.String("root", ".", "`folder` of the tree")
	only := flag.String("only", "", "run the breaks whose rule or title, or sample the packages whose folder has this `text`")
	check := flag.Bool("check", false, "check the entries against the code and the document, and run nothing")
	write := flag.Bool("write", false, "write the table of the document anew")
	n := flag.Int("sample", 0, "try this `number` of generated mutants of each package instead")
	seed := flag.Uint64("seed", 1, "`number` by which the sample is drawn")
	flag.Parse()
	var err error
	if *n > 0 {
		err = sampleAll(ctx, *root, *only, *n, *seed)
	} else {
		err = run(ctx, *root, *only, *check, *write)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, root, only string, check, write bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "test", "mutate", "breaks.txt"))
	if err != nil {
		return err
	}
	breaks, err := parse(string(text))
	if err != nil {
		return err
	}
	doc := filepath.Join(root, "docs", "kvm2-provider-spec.md")
	if write {
		if err := writeTable(doc, breaks); err != nil {
			return err
		}
	}
	if err := checkAll(root, doc, breaks); err != nil || check || write {
		return err
	}
	return runAll(ctx, root, breaks, only)
}

// runAll runs the chosen breaks one after the other and says what survived.
func runAll(ctx context.Context, root string, breaks []entry, only string) error {
	dir, err := os.MkdirTemp("", "kvm2d-mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began, ran := time.Now(), 0
	var survived []string
	for _, b := range breaks {
		if !strings.Contains(b.rule+" "+b.title, only) {
			continue
		}
		ran++
		at := time.Now()
		word := "red"
		if err := b.run(ctx, root, dir); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			word = "SURVIVED"
			survived = append(survived, fmt.Sprintf("%s %s: %v", b.rule, b.title, err))
		}
		fmt.Printf("%-9s %-4s %-64s %s\n", word, b.rule, b.title, time.Since(at).Round(100*time.Millisecond))
	}
	fmt.Printf("%d breaks in %s, %d killed\n", ran, time.Since(began).Round(time.Second), ran-len(survived))
	if survived != nil {
		return fmt.Errorf("these breaks were not noticed:\n%s", strings.Join(survived, "\n"))
	}
	return nil
}
