package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
)

// mutant is one generated change of one file.
type mutant struct {
	// file is absolute, line for people; from and to are offsets of what is replaced.
	file     string
	line     int
	from, to int
	by       string
	before   string
}

func (m mutant) String() string {
	after := m.by
	if after == "" {
		after = "(nothing)"
	}
	return fmt.Sprintf("%s:%d: %s -> %s", filepath.Base(m.file), m.line, m.before, after)
}

// swaps are what becomes of an operator: a condition's bound moves or the
// condition turns round, arithmetic and logic change sides.
var swaps = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
}

// generate returns the mutants of a folder's package, tests left out.
func generate(folder string) ([]mutant, error) {
	pkg, err := build.ImportDir(folder, 0)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range pkg.GoFiles {
		path := filepath.Join(folder, name)
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, content, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		g := generator{set: set, file: path, content: content}
		ast.Inspect(file, g.visit)
		all = append(all, g.found...)
	}
	return all, nil
}

// generator collects the mutants of one file.
type generator struct {
	set     *token.FileSet
	file    string
	content []byte
	found   []mutant
}

func (g *generator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		g.swap(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		g.swap(n.TokPos, n.Tok)
	case *ast.AssignStmt:
		g.swap(n.TokPos, n.Tok)
	case *ast.UnaryExpr:
		if n.Op == token.SUB || n.Op == token.NOT {
			g.add(n.OpPos, n.OpPos+1, "")
		}
	case *ast.ExprStmt:
		if _, call := n.X.(*ast.CallExpr); call {
			g.add(n.Pos(), n.End(), "")
		}
	}
	return true
}

func (g *generator) swap(at token.Pos, op token.Token) {
	for _, other := range swaps[op] {
		g.add(at, at+token.Pos(len(op.String())), other.String())
	}
}

func (g *generator) add(from, to token.Pos, by string) {
	at := g.set.Position(from)
	m := mutant{file: g.file, line: at.Line, from: at.Offset, to: g.set.Position(to).Offset, by: by}
	m.before = string(g.content[m.from:m.to])
	g.found = append(g.found, m)
}

// apply returns the file with the change made.
func (m mutant) apply() ([]byte, error) {
	content, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	return append(append(append([]byte(nil), content[:m.from]...), m.by...), content[m.to:]...), nil
}
