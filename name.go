package holdfast

import "github.com/holdfast-go/holdfast/protocol"

// EscapeName turns any string into a legal lock name. It is meant for strings that come from outside the program, such as file paths or user input.
// Different strings get different names. A legal name without %, { and } stays the same.
//
// The characters %, { and } become %XX, and so does each byte that is not allowed in a name. Even a legal pair of braces is escaped: a {tag} would
// choose the hash slot, and "{x}" would share keys with "x". The empty string becomes "%". A result longer than 512 bytes is cut, and ends in "%~"
// and the hexadecimal SHA-256 of the whole string.
func EscapeName(s string) string { return protocol.EscapeName(s) }
