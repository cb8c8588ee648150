package report

// colour has the colours of a contender, on a light and on a dark background.
type colour struct {
	Peer, Class, Light, Dark string
}

// The first contender has the strongest colour; floors (no lock library) and ceilings (no server) are grey.
var (
	libraryColours = [][2]string{
		{"#c2410c", "#fb923c"}, {"#1d4ed8", "#7aa2ff"}, {"#0e7490", "#3fc3dd"}, {"#15803d", "#4cc97a"}, {"#7e22ce", "#c48bff"},
		{"#a21caf", "#ee82f5"}, {"#be123c", "#ff7d97"}, {"#854d0e", "#e0b34a"},
	}
	boundColours = [][2]string{{"#57606a", "#a5adb8"}, {"#7b838c", "#8a929c"}, {"#99a1aa", "#6f7781"}, {"#3b4148", "#c3cad2"}}
)

func (r *Results) colours() (all []colour) {
	libraries, bounds := 0, 0
	for _, p := range r.Peers {
		pair := libraryColours[libraries%len(libraryColours)]
		if p.Role == "floor" || p.Role == "ceiling" {
			pair = boundColours[bounds%len(boundColours)]
			bounds++
		} else {
			libraries++
		}
		all = append(all, colour{p.Name, "p" + string(rune('a'+len(all))), pair[0], pair[1]})
	}
	return all
}

func (p *page) class(peer string) string {
	for _, c := range p.Colours {
		if c.Peer == peer {
			return c.Class
		}
	}
	return ""
}
