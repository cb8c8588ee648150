// Package recipes has tested examples of common uses of locks, one in each file. doc/recipes.md lists them, together with those of
// examples/with, which use other libraries.
package recipes
