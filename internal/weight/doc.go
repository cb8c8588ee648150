// Package weight measures what Holdfast adds to a user's binary. See doc/decisions/0001-weight-of-the-module.md.
package weight
