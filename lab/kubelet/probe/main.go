// probe is the only process of a container or of a job in tests of overlaps. It holds a lock on its node for as long as
// it lives, so that the kernel, and no component, says when it has ended.
//
// Files in -folder, all names given by -name: NAME.started holds the time of the start, NAME.alive the time of the last
// sign of life, NAME.term the time of SIGTERM. A probe that cannot have the lock appends a line to the file "overlaps"
// and runs on. Times are seconds since the epoch.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const heartbeat = 20 * time.Millisecond

func main() {
	folder := flag.String("folder", "/probe", "folder that all probes of the node see")
	name := flag.String("name", "", "name of this probe")
	shared := flag.Bool("shared", false, "take the lock beside others that share it")
	linger := flag.Duration("linger", 0, "how long to run on after SIGTERM; negative: SIGTERM is ignored")
	runFor := flag.Duration("run-for", 0, "end after so long; 0: never")
	code := flag.Int("exit", 0, "exit code after -run-for")
	flag.Parse()
	started := time.Now()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGCONT)

	lock := open(filepath.Join(*folder, "lock"), os.O_RDWR)
	kind := syscall.LOCK_EX
	if *shared {
		kind = syscall.LOCK_SH
	}
	if syscall.Flock(int(lock.Fd()), kind|syscall.LOCK_NB) != nil {
		overlaps := open(filepath.Join(*folder, "overlaps"), os.O_WRONLY|os.O_APPEND)
		fmt.Fprintf(overlaps, "%s %s\n", stamp(started), *name)
	}
	write(open(filepath.Join(*folder, *name+".started"), os.O_WRONLY), started)
	alive := open(filepath.Join(*folder, *name+".alive"), os.O_WRONLY)

	var end <-chan time.Time
	if *runFor > 0 {
		end = time.After(*runFor)
	}
	exit := *code
	for ticker := time.NewTicker(heartbeat); ; {
		select {
		case <-ticker.C:
			write(alive, time.Now())
		case received := <-terminated:
			if received != syscall.SIGTERM {
				continue
			}
			write(open(filepath.Join(*folder, *name+".term"), os.O_WRONLY), time.Now())
			if *linger >= 0 && end == nil {
				end, exit = time.After(*linger), 128+int(syscall.SIGTERM)
			}
		case <-end:
			write(alive, time.Now())
			os.Exit(exit)
		}
	}
}

func open(path string, mode int) *os.File {
	file, err := os.OpenFile(path, os.O_CREATE|mode, 0o666)
	if err != nil {
		log.Fatal(err)
	}
	return file
}

func write(file *os.File, at time.Time) {
	if _, err := file.WriteAt([]byte(stamp(at)), 0); err != nil {
		log.Fatal(err)
	}
}

func stamp(at time.Time) string {
	return fmt.Sprintf("%.6f", float64(at.UnixMicro())/1e6)
}
