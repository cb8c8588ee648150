// Package with has tested examples of Holdfast with other libraries, one in each file. It is a separate module, so that Holdfast does not
// depend on them.
package with
