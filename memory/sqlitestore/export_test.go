package sqlitestore

import (
	"context"
	"fmt"

	"github.com/hearsay-go/hearsay/memory"
)

// LimitPages makes the writer find no more space once the file has n pages.
func (d *Driver) LimitPages(ctx context.Context, n int) error {
	c, err := d.writer.take(ctx)
	if err != nil {
		return err
	}
	defer d.writer.give(c, false)
	_, err = c.number(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", n))
	return err
}

// Place is the finding about the file system of a path.
func Place(path string) memory.Finding { return place(path) }
