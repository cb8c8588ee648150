package cli

import (
	"math"
	"time"
	"unicode"
	"unicode/utf8"
)

// press handles a key, and returns the action that the key asks for.
func (v *topView) press(k key) topAction {
	v.note = ""
	switch {
	case v.help:
		v.help = false
		return topNothing
	case v.asking:
		v.asking = false
		if k == "y" || k == "Y" {
			return topFree
		}
		v.note = "left as it is"
		return topNothing
	case v.typing:
		v.typeFilter(k)
		return topNothing
	}
	switch k {
	case "q":
		return topQuit
	case "?", "h":
		v.help = true
	case "p", " ":
		if v.paused = !v.paused; !v.paused {
			return topLook
		}
	case "f":
		v.ask()
	default:
		if v.open {
			return v.pressInLock(k)
		}
		return v.pressInList(k)
	}
	return topNothing
}

func (v *topView) pressInLock(k key) topAction {
	if by, moves := v.moves(k); moves {
		v.line += by
		return topNothing
	}
	if k != keyEscape && k != keyEnter && k != keyBackspace {
		return topNothing
	}
	v.open = false
	return topLook
}

// moves returns the number of rows by which a key moves the selection or the page. If the key moves neither, the second result is false.
func (v *topView) moves(k key) (by int, moves bool) {
	switch k {
	case keyUp, "k":
		return -1, true
	case keyDown, "j":
		return 1, true
	case keyPageUp:
		return -v.page, true
	case keyPageDown:
		return v.page, true
	case keyHome, "g":
		return math.MinInt / 2, true
	case keyEnd, "G":
		return math.MaxInt / 2, true
	}
	return 0, false
}

func (v *topView) pressInList(k key) topAction {
	if by, moves := v.moves(k); moves {
		v.move(by)
		return topNothing
	}
	switch k {
	case keyEnter:
		return v.openSelected()
	case "/":
		v.typing = true
	case keyEscape:
		v.filter = ""
	case "s":
		v.order = (v.order + 1) % len(topOrders)
	}
	return topNothing
}

func (v *topView) openSelected() topAction {
	rows := v.rows()
	i := v.at(rows)
	if i < 0 {
		return topNothing
	}
	v.open, v.one, v.oneAt, v.since, v.renewed = true, rows[i], v.last.at, time.Now(), time.Time{}
	v.line = 0
	return topLook
}

// typeFilter edits the filter.
func (v *topView) typeFilter(k key) {
	switch k {
	case keyEnter:
		v.typing = false
	case keyEscape:
		v.typing, v.filter = false, ""
	case keyBackspace:
		_, last := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-last]
	default:
		if r, length := utf8.DecodeRuneInString(string(k)); length == len(k) && unicode.IsPrint(r) {
			v.filter += string(k)
		}
	}
}
