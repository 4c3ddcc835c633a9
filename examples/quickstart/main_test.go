package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asProgram makes the test binary the program itself.
const asProgram = "RUN_QUICKSTART"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestMain_TheJobIsHandledAndTheProgramEndsWhenAsked(t *testing.T) {
	t.Parallel()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), asProgram+"=1")
	var log bytes.Buffer
	program.Stderr = &log
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { program.Process.Kill() }).Stop()

	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "welcome, Ada\n" {
		t.Errorf("the program printed %q, want the welcome of Ada", line)
	}
	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("after SIGTERM the program ended with %v; its log:\n%s", err, log.String())
	}
}
