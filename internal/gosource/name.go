// Package gosource reads the project's own source: tests and tools that look at functions name them alike.
package gosource

import (
	"go/ast"
	"go/types"
	"strings"
)

// FunctionName is Type.Method, or Function. Neither a pointer nor type parameters of the receiver are part of it.
func FunctionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[")
	return strings.TrimPrefix(receiver, "*") + "." + f.Name.Name
}
