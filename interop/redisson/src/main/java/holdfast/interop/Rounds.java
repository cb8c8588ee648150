package holdfast.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * Rounds that increment a number in a plain file, which only a lock guards. They use blocking calls on a separate thread, as a Java
 * service would.
 *
 * <pre>
 * rounds client= kind= name= n= file= [tokens=file]
 * </pre>
 *
 * <p>With kind "read", every other round only reads, under the read lock. Kind "latch" counts down n times and uses no file. The
 * tokens of a fenced lock are appended to a second file.
 */
final class Rounds {

    private static final long PAUSE_NANOS = 1_000_000;

    private final Clients clients;

    Rounds(Clients clients) {
        this.clients = clients;
    }

    CompletionStage<?> carryOut(Request request) {
        CompletableFuture<Object> done = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                new Player(clients.get(request), request).play();
                done.complete("");
            } catch (Throwable failure) {
                done.completeExceptionally(failure);
            }
        }, "rounds-" + request.id());
        thread.setDaemon(true);
        thread.start();
        return done;
    }

    private record Player(RedissonClient client, Request request) {

        void play() throws Exception {
            Path file = Path.of(request.text("file", ""));
            long n = request.number("n");
            for (long i = 0; i < n; i++) {
                LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(PAUSE_NANOS)); // a service also does other things
                switch (request.text("kind")) {
                    case "read" -> readOrWrite(file, i % 2 == 1);
                    case "fenced" -> fenced(file, Path.of(request.text("tokens")));
                    case "semaphore" -> semaphore(file);
                    case "permit" -> permit(file);
                    case "latch" -> client.getCountDownLatch(name()).countDown();
                    default -> exclusive(Locks.lock(client, request.text("kind"), name()), file);
                }
            }
        }

        private String name() {
            return request.text("name");
        }

        private void exclusive(RLock lock, Path file) throws IOException {
            lock.lock();
            try {
                increment(file);
            } finally {
                lock.unlock();
            }
        }

        private void readOrWrite(Path file, boolean read) throws IOException {
            if (!read) {
                exclusive(Locks.lock(client, "write", name()), file);
                return;
            }
            RLock lock = Locks.lock(client, "read", name());
            lock.lock();
            try {
                long before = number(file);
                Thread.yield();
                if (number(file) != before) {
                    throw new IllegalStateException("the number changed while it was read");
                }
            } finally {
                lock.unlock();
            }
        }

        private void fenced(Path file, Path tokens) throws IOException {
            RFencedLock lock = client.getFencedLock(name());
            Long token = lock.lockAndGetToken();
            try {
                increment(file);
                Files.writeString(tokens, token + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } finally {
                lock.unlock();
            }
        }

        private void semaphore(Path file) throws IOException, InterruptedException {
            RSemaphore semaphore = client.getSemaphore(name());
            semaphore.acquire();
            try {
                increment(file);
            } finally {
                semaphore.release();
            }
        }

        private void permit(Path file) throws IOException, InterruptedException {
            RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name());
            String permit = semaphore.acquire();
            try {
                increment(file);
            } finally {
                semaphore.release(permit);
            }
        }

        private static void increment(Path file) throws IOException {
            long number = number(file);
            Thread.yield(); // if another thread has the lock by mistake, this gives it time to interfere
            Files.writeString(file, Long.toString(number + 1));
        }

        private static long number(Path file) throws IOException {
            return Long.parseLong(Files.readString(file));
        }
    }
}
