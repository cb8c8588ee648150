package report

import (
	_ "embed"
	"html/template"
	"os"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"count": Count, "cores": Cores, "ratio": Ratio, "join": strings.Join,
}).Parse(pageText))

// WritePage writes the results as one HTML page that needs no other file.
func (r *Results) WritePage(file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	err = pageTemplate.Execute(out, r.page())
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}

// page is what the template shows.
type page struct {
	*Results
	Colours []colour
	Series  []series
	Sheets  []sheet
}

// sheet is one workload on the page.
type sheet struct {
	*Workload
	Better  string
	Bars    template.HTML
	Waits   template.HTML
	Columns []string
	Rows    [][]string
	Notes   []string
}

func (r *Results) page() page {
	p := page{Results: r, Colours: r.colours()}
	for i := range r.Workloads {
		p.Sheets = append(p.Sheets, p.sheet(&r.Workloads[i]))
	}
	p.Series = p.allSeries()
	return p
}

func (p *page) sheet(w *Workload) sheet {
	s := sheet{Workload: w, Better: "less is better", Bars: p.bars(w), Waits: p.waits(w)}
	if w.Higher {
		s.Better = "more is better"
	}
	columns := w.used()
	s.Columns = []string{""}
	for i, c := range columns {
		s.Columns = append(s.Columns, c.Title)
		if i == 0 {
			s.Columns = append(s.Columns, "spread", w.Outcomes[0].Peer+" is")
		}
	}
	for i := range w.Outcomes {
		o := &w.Outcomes[i]
		s.Rows = append(s.Rows, strings.Split(w.row(o, columns), "\t"))
		if text := o.remark(); text != "" {
			s.Notes = append(s.Notes, text)
		}
	}
	return s
}

// PrimaryTitle returns the title of the figure that the bars show.
func (s sheet) PrimaryTitle() string { return Columns(s.Workload)[0].Title }
