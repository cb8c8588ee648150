package otelholdfast

import (
	"regexp"

	"github.com/holdfast-go/holdfast"
)

// id matches a part of a name that may be an id: a UUID, a number, or hexadecimal digits with at least one decimal digit among them. The part must
// have delimiters around it. In the expression the UUID comes first, because the first group of a UUID may look like a number.
var id = regexp.MustCompile(`(^|[^0-9A-Za-z])([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]+|[0-9a-fA-F]*[0-9][0-9a-fA-F]*)($|[^0-9A-Za-z])`)

// shortest is the least number of hexadecimal digits that count as an id.
const shortest = 8

// CollapseIDs is a function for WithGroup. It returns the name with "*" in place of numbers, UUIDs, and hexadecimal ids of at least 8 digits, so that
// "order:4711" and "order:4712" are one group, "order:*".
func CollapseIDs(_ holdfast.Kind, name string) string {
	var out []byte
	for name != "" {
		at := id.FindStringSubmatchIndex(name)
		if at == nil {
			break
		}
		from, to := at[4], at[5]
		if text := name[from:to]; isNumber(text) || len(text) >= shortest {
			out = append(append(out, name[:from]...), '*')
		} else {
			out = append(out, name[:to]...)
		}
		name = name[to:]
	}
	return string(append(out, name...))
}

func isNumber(text string) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
