package holdfast.interop;

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;

/**
 * Reads one request per line, {@code ID VERB key=value...}, and answers each as soon as its outcome is known, so in any order:
 * {@code ID ok VALUE}, where VALUE may be empty, or {@code ID failed CLASS: MESSAGE}. The program ends at the end of its input.
 *
 * <p>{@link Clients}, {@link Locks}, {@link Counters} and {@link Rounds} list the verbs. A request that waits does not block others,
 * because the verbs use Redisson's asynchronous methods, or run in the background (clients and rounds). The owners are the
 * thread ids in the requests.
 */
public final class Driver {

    private final PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    private final Clients clients = new Clients();
    private final Locks locks = new Locks(clients);
    private final Counters counters = new Counters(clients);
    private final Rounds rounds = new Rounds(clients);

    private Driver() {
    }

    public static void main(String[] arguments) throws IOException {
        System.setOut(System.err); // standard output is for answers only
        new Driver().run();
        System.exit(0); // otherwise the threads of open clients would keep the program running
    }

    private void run() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answer("0 ok ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Request request = Request.parse(line);
            try {
                carryOut(request).whenComplete((value, failure) -> answer(request, value, failure));
            } catch (Exception failure) {
                answer(request, null, failure);
            }
        }
    }

    private CompletionStage<?> carryOut(Request request) throws Exception {
        return switch (request.verb().split("-")[0]) {
            case "client" -> clients.carryOut(request);
            case "lock" -> locks.carryOut(request);
            case "semaphore", "permit", "latch" -> counters.carryOut(request);
            case "rounds" -> rounds.carryOut(request);
            default -> throw new IllegalArgumentException("no such verb: " + request.verb());
        };
    }

    private void answer(Request request, Object value, Throwable failure) {
        if (failure instanceof CompletionException && failure.getCause() != null) {
            failure = failure.getCause();
        }
        if (failure != null) {
            answer(request.id() + " failed " + failure.toString().replaceAll("\\s+", " "));
        } else {
            answer(request.id() + " ok " + (value == null ? "" : value));
        }
    }

    private synchronized void answer(String line) {
        out.println(line);
    }
}
