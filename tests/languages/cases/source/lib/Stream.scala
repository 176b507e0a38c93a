package shop.stream

import scala.concurrent.Future

/** A stream of events. */
sealed trait Event[+A] {
  def name: String
  def map[B](f: A => B): Event[B]
}

final case class Tick[A](value: A) extends Event[A] {
  override def name: String = "tick"

  def map[B](f: A => B): Event[B] = {
    val next = f(value)
    Tick(next)
  }
}

object Event {
  type Id = String
  val Empty: Event[Nothing] = null

  def apply[A](value: A): Event[A] = Tick(value)

  implicit class Ops[A](event: Event[A]) {
    def twice: Event[A] = event
  }
}

abstract class Source(val name: String) extends AutoCloseable {
  protected def next(): Option[Int]

  override def close(): Unit = {
    println(name)
  }
}

enum Color(val rgb: Int):
  case Red extends Color(0xff0000)
  case Green extends Color(0x00ff00)

extension (text: String)
  def shout: String = text.toUpperCase

given Ordering[Color] with
  def compare(a: Color, b: Color): Int = a.rgb - b.rgb

def main(args: Array[String]): Unit =
  println(args.length)
