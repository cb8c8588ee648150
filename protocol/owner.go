package protocol

import "strconv"

// Owner says who acquires. Go has no thread identity, so re-entry is explicit: acquiring again under the same Owner
// re-enters. Owners are comparable; the zero Owner is none, and then every acquire is an owner of its own.
type Owner struct {
	runtime string
	number  uint64
}

// NewOwner makes the owner with this number in the runtime with this ID. Users call Runtime.NewOwner.
func NewOwner(runtime string, number uint64) Owner { return Owner{runtime: runtime, number: number} }

// IsZero reports whether o is no owner.
func (o Owner) IsZero() bool { return o == Owner{} }

// Runtime is the ID of the runtime that made the owner, "" for the zero Owner.
func (o Owner) Runtime() string { return o.runtime }

// String is "runtimeUUID:number", or "" for the zero Owner.
func (o Owner) String() string {
	if o.IsZero() {
		return ""
	}
	return o.runtime + ":" + strconv.FormatUint(o.number, 10)
}
