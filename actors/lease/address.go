package lease

import (
	"strconv"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Address names one lock: its kind, the user's name for it, and the key in Redis after Options.NameMapper.
type Address struct {
	Kind *scripts.Kind
	Name string
	Raw  string
	Part uint16 // the cluster's slot of the lock's keys; 0 on a single server

	Arguments scripts.Arguments // only the lock's actor uses them, in its own copy of the address
}

// shownName is the number of bytes that an error or an event shows of a string that is too long for a name.
const shownName = 64

// Quoted quotes a name for an error, and shortens it if it is too long for a name. Users may pass any string.
func Quoted(name string) string {
	if len(name) > protocol.MaxName {
		return strconv.Quote(name[:shownName]) + "..."
	}
	return strconv.Quote(name)
}

// Shorten shortens a name that is too long, for an event. It adds no quotes.
func Shorten(name string) string {
	if len(name) > protocol.MaxName {
		return name[:shownName] + "..."
	}
	return name
}
