package shop.mobile

/** Sends what was changed offline as soon as there is a network again. */
class SyncWorker(private val outbox: Outbox, private val server: Server) {
    fun runOnce(): Int {
        var sent = 0
        for (change in outbox.pending()) {
            when (server.send(change)) {
                Verdict.ACCEPTED -> outbox.remove(change.id).also { sent++ }
                Verdict.CONFLICT -> outbox.park(change.id)
                Verdict.UNREACHABLE -> return sent
            }
        }
        return sent
    }
}

enum class Verdict { ACCEPTED, CONFLICT, UNREACHABLE }

data class Change(val id: String, val payload: ByteArray)

interface Outbox {
    fun pending(): List<Change>
    fun remove(id: String)
    /** Put aside until a person has decided. */
    fun park(id: String)
}

interface Server {
    fun send(change: Change): Verdict
}
