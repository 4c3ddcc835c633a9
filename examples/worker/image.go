package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // formats that can be read
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"

	"github.com/seed81422ce9/jobs"
)

// Resize is the argument of image:resize. Source (JPEG, PNG, GIF or WebP) is scaled to
// fit into Width by Height pixels, keeps its proportions, and is never enlarged. Target
// is a JPEG or PNG, by its name. Both are below IMAGE_DIR.
type Resize struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// ResizeImage is the task of resizing an image.
var ResizeImage = jobs.Define[Resize]("image:resize", jobs.WithTimeout(5*time.Minute))

// maxPixels limits the memory of an image, four bytes per pixel, because a small file
// can declare a huge image.
const maxPixels = 50_000_000

// resizer resizes images below one directory, and can reach no other.
type resizer struct{ root *os.Root }

func newResizer(dir string) (*resizer, error) {
	root, err := os.OpenRoot(dir)
	return &resizer{root}, err
}

// resize resizes one image. A second run gives the same file. The file exists as a
// whole or not at all.
func (r *resizer) resize(ctx context.Context, task Resize, _ *jobs.Job) error {
	if !filepath.IsLocal(task.Source) || !filepath.IsLocal(task.Target) || task.Width < 1 || task.Height < 1 {
		return fmt.Errorf("%w: source and target have to be names below the directory, width and height 1 or more", jobs.SkipRetry)
	}
	encode, err := encoder(task.Target)
	if err != nil {
		return err
	}
	source, err := r.read(task.Source)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	target := image.NewRGBA(fit(source.Bounds(), task.Width, task.Height))
	draw.CatmullRom.Scale(target, target.Bounds(), source, source.Bounds(), draw.Src, nil)
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return r.write(task.Target, func(f *os.File) error { return encode(f, target) })
}

// read decodes an image. Data that is not an image is not retried; a file that cannot
// be read, or does not exist yet, is.
func (r *resizer) read(name string) (image.Image, error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	header, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, fmt.Errorf("%w: the source is not an image that can be read: %v", jobs.SkipRetry, err)
	}
	if int64(header.Width)*int64(header.Height) > maxPixels {
		return nil, fmt.Errorf("%w: the source has %d by %d pixels, the limit is %d in all", jobs.SkipRetry, header.Width, header.Height,
			maxPixels)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	img, _, err := image.Decode(f)
	var broken *fs.PathError
	if err != nil && !errors.As(err, &broken) {
		err = fmt.Errorf("%w: the source is broken: %v", jobs.SkipRetry, err)
	}
	return img, err
}

// fit returns the size to which an image of these bounds is scaled to fit into width by
// height.
func fit(bounds image.Rectangle, width, height int) image.Rectangle {
	scale := min(float64(width)/float64(bounds.Dx()), float64(height)/float64(bounds.Dy()), 1)
	return image.Rect(0, 0, max(1, int(float64(bounds.Dx())*scale+.5)), max(1, int(float64(bounds.Dy())*scale+.5)))
}

// encoder returns the function that writes a file of that name.
func encoder(name string) (func(*os.File, image.Image) error, error) {
	switch path.Ext(name) {
	case ".jpg", ".jpeg":
		return func(f *os.File, img image.Image) error { return jpeg.Encode(f, img, &jpeg.Options{Quality: 85}) }, nil
	case ".png":
		return func(f *os.File, img image.Image) error { return png.Encode(f, img) }, nil
	}
	return nil, fmt.Errorf("%w: the target's name ends neither in .jpg, .jpeg nor .png", jobs.SkipRetry)
}

// write creates a file atomically: it writes under a name unique to this run, then
// renames it.
func (r *resizer) write(name string, encode func(*os.File) error) error {
	if err := r.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temporary := name + "." + rand.Text() + ".part"
	f, err := r.root.Create(temporary)
	if err != nil {
		return err
	}
	err = encode(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = r.root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, r.root.Remove(temporary))
	}
	return nil
}
