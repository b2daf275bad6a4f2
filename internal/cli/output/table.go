package output

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Column is a column of a table.
type Column struct {
	Name string
	// IsWide is true for a column that only format Wide has.
	IsWide bool
}

// Rows is a table. Each row has a cell for each column.
type Rows struct {
	Columns []Column
	Cells   [][]string
	// Widths are the minimum widths of the columns; nil for none. Print increases them to those of its cells, so that
	// the rows of a later table line up.
	Widths *Widths
}

// Columns returns columns by their names. A name with the suffix "+" is a column of format Wide.
func Columns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		plain, isWide := strings.CutSuffix(name, "+")
		columns[i] = Column{Name: plain, IsWide: isWide}
	}
	return columns
}

// Add adds a row.
func (r *Rows) Add(cells ...string) { r.Cells = append(r.Cells, cells) }

// Print prints the table as kubectl does: upper-case headers, and columns at least three spaces apart. An empty cell is
// printed as "-".
func (r *Rows) Print(out io.Writer, format Format, hasHeaders bool) error {
	var lines [][]string
	if hasHeaders {
		names := make([]string, len(r.Columns))
		for i, column := range r.Columns {
			names[i] = column.Name
		}
		lines = append(lines, r.shown(names, format))
	}
	for _, cells := range r.Cells {
		lines = append(lines, r.shown(cells, format))
	}
	widths := r.Widths
	if widths == nil {
		widths = &Widths{}
	}
	for _, line := range lines {
		widths.add(line)
	}
	var text strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			if i == len(line)-1 {
				text.WriteString(cell + "\n")
				break
			}
			fmt.Fprintf(&text, "%-*s", (*widths)[i]+gap, cell)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// gap is the number of spaces between two columns.
const gap = 3

// shown returns the cells that a format has.
func (r *Rows) shown(cells []string, format Format) []string {
	var shown []string
	for i, column := range r.Columns {
		if !column.IsWide || format == Wide {
			shown = append(shown, strings.ReplaceAll(cmp.Or(cells[i], "-"), "\n", " "))
		}
	}
	return shown
}

// Widths are the widths of the columns of a table in characters.
type Widths []int

// add increases the widths to those of a line.
func (w *Widths) add(line []string) {
	for i, cell := range line {
		if i == len(*w) {
			*w = append(*w, 0)
		}
		(*w)[i] = max((*w)[i], utf8.RuneCountInString(cell))
	}
}
