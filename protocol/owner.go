package protocol

import "strconv"

// Owner identifies the party that acquires a lock. Go has no thread identity, so re-entry is explicit: acquiring again under the
// same Owner re-enters. Owners are comparable. Each acquire with the zero Owner gets an owner of its own.
type Owner struct {
	runtime string
	number  uint64
}

// NewOwner returns the owner with this number in the runtime with this ID. Users call Runtime.NewOwner instead.
func NewOwner(runtime string, number uint64) Owner { return Owner{runtime: runtime, number: number} }

// IsZero reports whether o is the zero Owner.
func (o Owner) IsZero() bool { return o == Owner{} }

// Runtime returns the ID of the runtime that made the owner, "" for the zero Owner.
func (o Owner) Runtime() string { return o.runtime }

// String returns "runtimeUUID:number", or "" for the zero Owner.
func (o Owner) String() string {
	if o.IsZero() {
		return ""
	}
	return o.runtime + ":" + strconv.FormatUint(o.number, 10)
}
