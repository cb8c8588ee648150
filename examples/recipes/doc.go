// Package recipes has tested examples of what locks are often wanted for, one in each file. Read the files; doc/recipes.md lists them,
// with those of examples/with, which use other libraries.
package recipes
