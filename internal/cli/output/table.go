package output

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	line := func(cells []string) {
		var shown []string
		for i, column := range r.Columns {
			if column.IsWide && format != Wide {
				continue
			}
			cell := cells[i]
			if cell == "" {
				cell = "-"
			}
			shown = append(shown, cell)
		}
		// The writer keeps errors until Flush.
		_, _ = fmt.Fprintln(table, strings.Join(shown, "\t"))
	}
	if hasHeaders {
		names := make([]string, len(r.Columns))
		for i, column := range r.Columns {
			names[i] = column.Name
		}
		line(names)
	}
	for _, cells := range r.Cells {
		line(cells)
	}
	return table.Flush()
}
