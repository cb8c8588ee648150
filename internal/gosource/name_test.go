package gosource

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFunctionName(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "", `package p
func F() {}
func (s S) M() {}
func (s *S) N() {}
func (g G[T]) O() {}
func (g *G[K, V]) P() {}
func (*S) Q() {}
`, parser.SkipObjectResolution)
	require.NoError(t, err)
	var names []string
	for _, declaration := range file.Decls {
		names = append(names, FunctionName(declaration.(*ast.FuncDecl)))
	}
	assert.Equal(t, []string{"F", "S.M", "S.N", "G.O", "G.P", "S.Q"}, names)
}
