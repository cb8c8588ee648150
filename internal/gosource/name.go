// Package gosource names functions of the project's source, so that all tests and tools that look at functions use the same names.
package gosource

import (
	"go/ast"
	"go/types"
	"strings"
)

// FunctionName returns Type.Method, or Function. A pointer and type parameters of the receiver are left out.
func FunctionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[")
	return strings.TrimPrefix(receiver, "*") + "." + f.Name.Name
}
