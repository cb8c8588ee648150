// Package weight measures what Holdfast adds to a user's binary, and builds one for a platform that does not work. See doc/decisions/0001-weight-of-the-module.md.
package weight
