package protocol

import (
	"fmt"
	"strings"
)

// CheckError is the error of a check: the problems that keep a runtime from working as it should.
type CheckError struct {
	Findings []Finding // the most important first
	Causes   []error   // the underlying errors, for errors.Is and errors.As
}

// Finding is one problem: something that is missing or wrong.
type Finding struct {
	What   string // what is missing or wrong
	Why    string // why it matters, and the evidence
	Remedy string // what to do; "" if unknown
}

// Unwrap returns the causes, for errors.Is and errors.As.
func (e *CheckError) Unwrap() []error { return e.Causes }

// CheckLines is the maximum number of lines in the text of a CheckError.
const CheckLines = 25

// Error returns one line for a single finding. For several findings it returns a title, a line for each finding, and, if rights are missing, a line
// with the ACL rule that grants all of them. The text has at most 25 lines. If not all findings fit, a line says how many are left out.
func (e *CheckError) Error() string {
	const title = "holdfast: check: "
	if len(e.Findings) == 1 {
		return title + e.Findings[0].text(true)
	}
	lines, rule := []string{fmt.Sprintf("%s%d findings", title, len(e.Findings))}, e.rule()
	room := CheckLines - 1
	if rule != "" {
		room--
	}
	for i, f := range e.Findings {
		if left := len(e.Findings) - i; left > 1 && i == room-1 {
			lines = append(lines, fmt.Sprintf("- and %d more", left))
			break
		}
		lines = append(lines, "- "+f.text(!strings.HasPrefix(f.Remedy, setUser)))
	}
	if rule != "" {
		lines = append(lines, "all missing rights at once: "+rule)
	}
	return strings.Join(lines, "\n")
}

// text is the finding in one line.
func (f Finding) text(remedy bool) string {
	text := f.What
	if f.Why != "" {
		text += ": " + f.Why
	}
	if remedy && f.Remedy != "" {
		text += "; remedy: " + f.Remedy
	}
	return strings.ReplaceAll(text, "\n", " ")
}

const setUser = "ACL SETUSER "

// rule is the ACL rule that grants all missing rights; "" if none is missing.
func (e *CheckError) rule() string {
	rule := ""
	for _, f := range e.Findings {
		rest, found := strings.CutPrefix(f.Remedy, setUser)
		if !found {
			continue
		}
		user, right, _ := strings.Cut(rest, " ")
		if rule == "" {
			rule = setUser + user
		}
		rule += " " + right
	}
	return rule
}
