package shop.session

import kotlinx.coroutines.flow.Flow

const val TIMEOUT = 30

typealias Listener = (Session) -> Unit

/** A session of a user. */
@Serializable
data class Session(val id: String, var user: String? = null) : Closeable {
    val isOpen: Boolean
        get() = user != null

    init {
        require(id.isNotEmpty())
    }

    constructor(number: Int) : this(number.toString())

    suspend fun refresh(force: Boolean = false): Session {
        return copy(user = user?.trim())
    }

    override fun close() = Unit

    companion object {
        fun create(): Session = Session("new")
    }

    inner class Guard {
        fun check() {
            error("no")
        }
    }
}

sealed interface Event {
    data class Opened(val at: Long) : Event
    object Closed : Event
}

interface Store<T> {
    fun load(id: String): T?
}

enum class Mode { FAST, SAFE }

object Registry {
    private val sessions = mutableMapOf<String, Session>()

    operator fun get(id: String): Session? = sessions[id]
}

fun String.toSession(): Session {
    return Session(this)
}

inline fun <reified T> Flow<T>.firstOf(crossinline test: (T) -> Boolean): T? {
    return null
}
