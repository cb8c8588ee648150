package holdfast

import "github.com/holdfast-go/holdfast/protocol"

// EscapeName makes a legal lock name of any string, for names that come from outside: a file's path, a user's input. Different strings
// get different names. A legal name without %, { and } is its own escaped name.
//
// What is not allowed in a name, and these three, become %XX for each of their bytes. A pair of braces is escaped although a name may
// have one {tag}: who chooses a tag chooses the slot, and "x" and "{x}" share keys. The empty string becomes "%". What would be longer
// than 512 bytes keeps its beginning and ends in "%~" and the SHA-256 of the whole string in hexadecimal form.
func EscapeName(s string) string { return protocol.EscapeName(s) }
