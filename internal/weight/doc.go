// Package weight measures what Holdfast adds to a user's binary, and checks the error on a platform on which Holdfast does not work. See
// doc/decisions/0001-weight-of-the-module.md.
package weight
