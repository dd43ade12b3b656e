"""Does an answer speak another request's words?"""
