package inspect

import "strings"

// matches reports whether a name matches a pattern as Redis understands it: * stands for any bytes, ? for one byte, [a-c] for one byte of a set,
// [^a-c] for one byte outside a set, and \ makes the next byte stand for itself.
func matches(pattern, name string) bool {
	// After a mismatch, the last * has to cover one more byte, and the pattern after this * is matched again. retry is the pattern after this *. rest
	// is the part of the name after the bytes that this * covers.
	retry, rest := "", ""
	starred := false
	for {
		switch {
		case strings.HasPrefix(pattern, "*"):
			pattern = pattern[1:]
			retry, rest, starred = pattern, name, true
			continue
		case name == "" && pattern == "":
			return true
		case name != "":
			if after, ok := matchesByte(pattern, name[0]); ok {
				pattern, name = after, name[1:]
				continue
			}
		}
		if !starred || rest == "" {
			return false
		}
		rest = rest[1:]
		pattern, name = retry, rest
	}
}

// matchesByte reports whether the first element of a pattern matches the byte c, and returns the pattern after this element. The pattern does not
// begin with *.
func matchesByte(pattern string, c byte) (after string, ok bool) {
	if pattern == "" {
		return "", false
	}
	first, after := pattern[0], pattern[1:]
	switch {
	case first == '?':
		return after, true
	case first == '[':
		return matchesSet(after, c)
	case first == '\\' && after != "":
		first, after = after[0], after[1:]
	}
	return after, first == c
}

// matchesSet matches a set whose [ has been read. A set without a ] extends to the end of the pattern.
func matchesSet(set string, c byte) (after string, ok bool) {
	set, not := strings.CutPrefix(set, "^")
	for set != "" && set[0] != ']' {
		switch {
		case set[0] == '\\' && len(set) > 1:
			ok = ok || set[1] == c
			set = set[2:]
		case len(set) > 2 && set[1] == '-':
			low, high := min(set[0], set[2]), max(set[0], set[2])
			ok = ok || low <= c && c <= high
			set = set[3:]
		default:
			ok = ok || set[0] == c
			set = set[1:]
		}
	}
	return strings.TrimPrefix(set, "]"), ok != not
}
