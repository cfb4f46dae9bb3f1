package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// public lists the packages that programs of other modules import.
var public = []string{root, "txl", "sparsemeta", "sparsemeta/metatrain", "tokenizer", "weights",
	"api/client"}

// A program in another module uses all public packages. The other module has the requirements of
// this repository's go.mod, so the test needs no network.
func TestAnotherModuleCanUseThePublicPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	repository, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	ours := strings.TrimSuffix(module, "/")
	requirements := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(read("../go.mod"),
		"module example.org/outside")
	requirements += "\nrequire " + ours + " v0.0.0\n\nreplace " + ours + " => " +
		strconv.Quote(repository) + "\n"
	for name, text := range map[string]string{
		"go.mod": requirements, "go.sum": read("../go.sum"),
		"main.go": read("testdata/outside/main.go"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := exec.Command("go", "run", ".")
	run.Dir = dir
	run.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ok\n", string(out))
}

// Exported declarations of public packages must not use types of internal packages, because other
// modules cannot name these types. An alias is allowed, because it gives an internal type a public
// name.
func TestPublicSignaturesNameNoInternalType(t *testing.T) {
	for _, name := range public {
		files, err := filepath.Glob(filepath.Join("..", name, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, name)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			require.NoError(t, err)
			for _, found := range internalTypes(file) {
				t.Errorf("%s: %s.%s is internal", set.Position(found.Pos()), found.X, found.Sel)
			}
		}
	}
}

func internalTypes(file *ast.File) (found []*ast.SelectorExpr) {
	hidden := map[string]bool{}
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil &&
			strings.HasPrefix(path, module+"internal/") {
			hidden[path[strings.LastIndex(path, "/")+1:]] = true
		}
	}
	look := func(node ast.Node) {
		_, inStruct := node.(*ast.StructType)
		ast.Inspect(node, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && inStruct && len(field.Names) > 0 &&
				!slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
				return false
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && hidden[pkg.Name] {
					found = append(found, s)
				}
			}
			return true
		})
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				look(d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && !s.Assign.IsValid() {
					look(s.Type)
				}
			}
		}
	}
	return found
}

// exportedReceiver reports whether a function has no receiver or an exported receiver type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	name, ok := receiver.(*ast.Ident)
	return ok && name.IsExported()
}
