package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

//go:embed shell.sh
var shellScript string

// shell is a bash that runs one file after the other. Its owner calls close,
// which waits for everything that the files started.
type shell struct {
	cmd    *exec.Cmd
	folder string // of the files and what they print
	orders io.WriteCloser
	cwd    string      // where the last order left it
	done   chan string // the folder after each order that succeeded; closed at the end
	count  int
}

// startShell starts prefix followed by bash with arguments. env is all that the
// shell finds; cwd is where it starts, work is for what is to be removed after
// it. The end of ctx kills it.
func startShell(ctx context.Context, prefix, env []string, cwd, work string) (*shell, error) {
	files, err := os.MkdirTemp(work, "shell-")
	if err != nil {
		return nil, err
	}
	answers, answer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	argv := append(prefix, "bash", "--norc", "--noprofile", "-c", shellScript, "docs")
	s := &shell{folder: files, cwd: cwd, done: make(chan string)}
	s.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	s.cmd.Dir, s.cmd.Env, s.cmd.ExtraFiles = cwd, append(env, "DOCS_FOLDER="+cwd), []*os.File{answer}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log *os.File
	if log, err = os.Create(filepath.Join(files, "log")); err == nil {
		s.cmd.Stdout, s.cmd.Stderr = log, log
		s.orders, err = s.cmd.StdinPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	err = errors.Join(err, answer.Close(), log.Close())
	if err != nil {
		return nil, errors.Join(err, answers.Close())
	}
	go s.listen(answers)
	return s, nil
}

// listen passes answers on until the shell, which alone holds the other end, has ended.
func (s *shell) listen(answers *os.File) {
	defer close(s.done)
	defer func() { _ = answers.Close() }()
	for lines := bufio.NewScanner(answers); lines.Scan(); {
		s.done <- lines.Text()
	}
}

// run lets the shell read text, and returns what it printed. verb is "run", or
// "serve" for text that does not end but makes a daemon ready. After an error
// the shell is of no more use.
func (s *shell) run(ctx context.Context, verb, text string) (string, error) {
	s.count++
	file := filepath.Join(s.folder, fmt.Sprint(s.count))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(s.orders, verb, file); err != nil {
		return s.printed(file), errors.New("the shell has ended")
	}
	select {
	case cwd, ok := <-s.done:
		if !ok {
			return s.printed(file), errors.New("a command failed")
		}
		s.cwd = cwd
		return s.printed(file), nil
	case <-ctx.Done():
		return s.printed(file), context.Cause(ctx)
	}
}

// printed is what the file printed, or else what the shell said.
func (s *shell) printed(file string) string {
	out, err := os.ReadFile(file + ".out")
	if err != nil || len(out) == 0 {
		out, _ = os.ReadFile(filepath.Join(s.folder, "log"))
	}
	return strings.TrimRight(string(out), "\n")
}

// close ends the shell and its children.
func (s *shell) close() {
	_ = s.orders.Close()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
	for range s.done {
	}
}
